// The GPU's memory: what is allocated, and how it was used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>

#include "testing/gpu/access.h"

namespace ortconv::cuda::ptx {

// What memory holds before a launch. Nothing that depends on undefined numbers may become part of a result.
enum class Content { kDefined, kUndefined, kResult };

class GlobalMemory {
 public:
  struct Allocation {
    unsigned char* data;
    size_t bytes;
    bool result;
    Accesses accesses;
  };

  // Memory of the caller's, which stays until it is removed.
  void add(void* data, size_t bytes, Content content);
  void remove(const void* data);
  // Of what the caller has written, where it lies in an allocation.
  void set_defined(const void* data, size_t bytes);

  // From now on every address may be used, as where nobody can tell what is allocated: then races are all that is
  // found.
  void hold_everything() { everything_ = true; }

  // The allocation in which all of these bytes lie, which do not reach over a multiple of 16; null where there is none.
  Allocation* find(uint64_t address, size_t bytes);

  uint64_t next_launch();

 private:
  std::list<Allocation> allocations_;  // the one found last comes first
  bool everything_ = false;
  std::unordered_map<uint64_t, Allocation> pages_;  // of everything, that the launch has used
  uint64_t launches_ = 0;
};

}  // namespace ortconv::cuda::ptx
