#include "testing/gpu/global_memory.h"

namespace ortconv::cuda::ptx {

void GlobalMemory::add(void* data, size_t bytes, Content content) {
  if (bytes == 0) return;
  allocations_.push_back({static_cast<unsigned char*>(data), bytes, content == Content::kResult,
                          Accesses(bytes, content == Content::kDefined)});
}

void GlobalMemory::remove(const void* data) {
  allocations_.remove_if([data](const Allocation& allocation) { return allocation.data == data; });
}

void GlobalMemory::set_defined(const void* data, size_t bytes) {
  if (everything_) return;  // all of it counts as defined
  const auto address = reinterpret_cast<uintptr_t>(data);
  Allocation* const found = find(address, bytes);
  if (found != nullptr) found->accesses.set_defined(address - reinterpret_cast<uintptr_t>(found->data), bytes, true);
}

GlobalMemory::Allocation* GlobalMemory::find(uint64_t address, size_t bytes) {
  for (auto i = allocations_.begin(); i != allocations_.end(); ++i) {
    const uint64_t at = address - reinterpret_cast<uintptr_t>(i->data);
    if (at >= i->bytes || bytes > i->bytes - at) continue;
    allocations_.splice(allocations_.begin(), allocations_, i);
    return &allocations_.front();
  }
  if (!everything_) return nullptr;
  constexpr size_t kPageBytes = 1024;
  const uint64_t page = address / kPageBytes;
  const auto found = pages_.find(page);
  if (found != pages_.end()) return &found->second;
  auto* const data = reinterpret_cast<unsigned char*>(page * kPageBytes);
  return &pages_.insert({page, {data, kPageBytes, false, Accesses(kPageBytes, true)}}).first->second;
}

uint64_t GlobalMemory::next_launch() {
  pages_.clear();
  return ++launches_;
}

}  // namespace ortconv::cuda::ptx
