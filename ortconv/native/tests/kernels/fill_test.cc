// Filling memory: what lies beside it is left alone, and a dst is called far only where most of it is.
#include "kernels/fill.h"

#include <cstring>
#include <vector>

#include "base/dtype.h"
#include "testing/test.h"

namespace ortconv {
namespace {

template <class T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

template <class T>
void check(uint64_t bits) {
  constexpr int64_t kBeside = 20;
  const T value = from_bits<T>(bits), other = from_bits<T>(~bits);
  for (int64_t begin = 0; begin < kBeside; ++begin) {
    for (int64_t n = 0; n < 300; n += n < 40 ? 1 : 13) {
      for (const bool far : {false, true}) {
        std::vector<T> wanted(begin + n + kBeside, other), found(wanted);
        std::fill_n(wanted.begin() + begin, n, value);
        kernels::fill(found.data() + begin, n, value, far);
        EXPECT(std::memcmp(found.data(), wanted.data(), found.size() * sizeof(T)) == 0, n, " of ", sizeof(T),
               " bytes from ", begin, far ? ", past the caches" : "");
      }
    }
  }
}

TEST(numbers_of_every_size) {
  for (const uint64_t bits : {uint64_t{0}, uint64_t{0x3ff1234567898765}}) {
    check<float>(bits);
    check<double>(bits);
    check<Float16>(bits);
    check<Bfloat16>(bits);
  }
}

ConvProblem problem(int64_t channels, int64_t size, int64_t ker, int64_t stride) {
  ConvProblem p;
  p.ndims = 2, p.mb = 1, p.oc = channels;
  for (int a = 0; a < 2; ++a) {
    p.src_size[a] = size, p.ker[a] = ker, p.stride[a] = stride, p.dilation[a] = 1;
    p.dst_size[a] = (size - 1) * stride + ker;
  }
  return p;
}

TEST(far_is_a_large_dst_of_which_little_is_reached) {
  EXPECT(kernels::gaps_lie_far(problem(7, 40, 2, 32), 4), "44 MB, few lines reached");
  EXPECT(!kernels::gaps_lie_far(problem(7, 40, 2, 32), 2), "half as many bytes");
  EXPECT(!kernels::gaps_lie_far(problem(1, 40, 2, 32), 4), "6 MB");
  EXPECT(!kernels::gaps_lie_far(problem(7, 420, 2, 3), 4), "most lines reached");
}

}  // namespace
}  // namespace ortconv
