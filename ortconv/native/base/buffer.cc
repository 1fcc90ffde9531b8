#include "base/buffer.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace ortconv {
namespace {

constexpr std::align_val_t kUsual{64};
constexpr std::align_val_t kHugePage{2 << 20};
constexpr size_t kLarge = 4 << 20;  // as in NumPy

}  // namespace

Buffer::Buffer(size_t bytes) {
  const std::align_val_t alignment = bytes < kLarge ? kUsual : kHugePage;
  data_ = {static_cast<char*>(::operator new(bytes, alignment)), Delete{alignment}};
#if defined(__linux__)
  if (bytes >= kLarge) madvise(data_.get(), bytes, MADV_HUGEPAGE);  // a hint: nothing depends on its success
#endif
}

}  // namespace ortconv
