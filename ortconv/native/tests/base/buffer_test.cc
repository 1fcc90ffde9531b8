#include "base/buffer.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "testing/test.h"

namespace ortconv {
namespace {

bool is_aligned(const Buffer& buffer, uintptr_t alignment) {
  return reinterpret_cast<uintptr_t>(buffer.as<char>()) % alignment == 0;
}

TEST(buffers_are_aligned_and_own_all_their_bytes) {
  EXPECT(Buffer().empty(), "a buffer without memory");
  constexpr size_t kHugePage = 2 << 20, kLarge = 4 << 20;
  for (const size_t bytes : {size_t{1}, size_t{1000}, kLarge - 1, kLarge, 3 * kHugePage + 5}) {
    Buffer buffer(bytes);
    EXPECT(!buffer.empty() && is_aligned(buffer, 64), bytes, " bytes");
    if (bytes >= kLarge) EXPECT(is_aligned(buffer, kHugePage), bytes, " bytes begin within a huge page");
    std::memset(buffer.as<char>(), 7, bytes);
    const Buffer moved = std::move(buffer);
    EXPECT(moved.as<char>()[0] == 7 && moved.as<char>()[bytes - 1] == 7, bytes, " bytes");
  }
}

}  // namespace
}  // namespace ortconv
