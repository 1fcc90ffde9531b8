// Memory for tests of kernels, which stay within it or end.
#pragma once

#include <algorithm>
#include <cstddef>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#include <unistd.h>
#define ORTCONV_GUARD_PAGES 1
#endif

namespace ortconv::kernels {

// Memory between two pages that nobody may touch: it begins right after the first one or ends right before the second.
class Guarded {
 public:
  Guarded(size_t bytes, bool at_begin) {
#if defined(ORTCONV_GUARD_PAGES)
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inner = std::max<size_t>(1, (bytes + page - 1) / page) * page;
    size_ = inner + 2 * page;
    pages_ = static_cast<char*>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(pages_ + page, inner, PROT_READ | PROT_WRITE);
    data_ = pages_ + page + (at_begin ? 0 : inner - bytes);
#else
    (void)at_begin;
    size_ = bytes;
    data_ = pages_ = new char[bytes];
#endif
  }
  ~Guarded() {
#if defined(ORTCONV_GUARD_PAGES)
    munmap(pages_, size_);
#else
    delete[] pages_;
#endif
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }

 private:
  char *pages_, *data_;
  size_t size_;
};

}  // namespace ortconv::kernels
