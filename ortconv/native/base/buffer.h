// Memory that one object owns.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace ortconv {

// Memory of 64-byte aligned bytes; none at first. A large one lies on huge pages where the system allows it: looking up
// small pages slows down reads of memory that is in no cache.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes);

  bool empty() const { return data_ == nullptr; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  struct Delete {
    std::align_val_t alignment;
    void operator()(char* data) const { ::operator delete(data, alignment); }
  };
  std::unique_ptr<char, Delete> data_{nullptr, Delete{}};
};

}  // namespace ortconv
