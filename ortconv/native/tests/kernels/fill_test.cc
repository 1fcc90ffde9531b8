// Filling memory, and writing it past the caches: what lies beside it is left alone. Which results are called far.
#include "kernels/fill.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "testing/each_kernel.h"
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
void check(uint64_t bits, const kernels::WriteLinesKernel& kernel) {
  constexpr int64_t kBeside = 20;
  const T value = from_bits<T>(bits), other = from_bits<T>(~bits);
  for (int64_t begin = 0; begin < kBeside; ++begin) {
    for (int64_t n = 0; n < 300; n += n < 40 ? 1 : 13) {
      for (const bool far : {false, true}) {
        std::vector<T> wanted(begin + n + kBeside, other), found(wanted);
        std::fill_n(wanted.begin() + begin, n, value);
        kernels::fill(found.data() + begin, n, value, far ? &kernel : nullptr);
        EXPECT(std::memcmp(found.data(), wanted.data(), found.size() * sizeof(T)) == 0, n, " of ", sizeof(T),
               " bytes from ", begin, " with ", far ? kernel.name : "ordinary stores");
      }
    }
  }
}

TEST(numbers_of_every_size) {
  test::for_each_kernel(kernels::get_write_lines_kernel, [](const kernels::WriteLinesKernel& kernel) {
    for (const uint64_t bits : {uint64_t{0}, uint64_t{0x3ff1234567898765}}) {
      check<float>(bits, kernel);
      check<double>(bits, kernel);
      check<Float16>(bits, kernel);
      check<Bfloat16>(bits, kernel);
    }
  });
}

// Numbers and runs of the same one, which follow each other or not, of a memory that begins anywhere in a line.
template <class T>
void check_stream(const kernels::WriteLinesKernel& kernel, std::mt19937* random) {
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(*random);
  };
  constexpr int64_t kSize = 3000, kMost = 300;
  const T before = from_bits<T>(0x7777777777777777);
  std::vector<T> wanted(kSize, before), found(wanted), held(kMost + kernels::kCacheLine<T>);
  kernels::PastCaches<T> stream(kernel, held.data());
  for (int64_t at = draw(0, 40); at < kSize;) {
    const int64_t count = std::min(draw(0, kMost), kSize - at);
    T value = from_bits<T>(static_cast<uint64_t>(draw(0, 1 << 30)) * 0x100010001);
    if (draw(0, 1) == 0) {
      stream.fill(found.data() + at, count, value);
      std::fill_n(wanted.begin() + at, count, value);
    } else {
      T* const room = stream.room(found.data() + at);
      for (int64_t i = 0; i < count; ++i) {
        value = from_bits<T>(static_cast<uint64_t>(draw(0, 1 << 30)));
        wanted[static_cast<size_t>(at + i)] = room[i] = value;
      }
      stream.add(count);
    }
    at += count + (draw(0, 3) == 0 ? draw(0, 70) : 0);
  }
  stream.finish();
  kernels::finish_past_caches();
  EXPECT(std::memcmp(found.data(), wanted.data(), kSize * sizeof(T)) == 0, "numbers of ", sizeof(T), " bytes, ",
         kernel.name);
}

TEST(numbers_past_the_caches) {
  test::for_each_kernel(kernels::get_write_lines_kernel, [](const kernels::WriteLinesKernel& kernel) {
    std::mt19937 random(11);
    for (int i = 0; i < 200; ++i) {
      check_stream<float>(kernel, &random);
      check_stream<double>(kernel, &random);
      check_stream<Float16>(kernel, &random);
      check_stream<Bfloat16>(kernel, &random);
    }
  });
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
  EXPECT(kernels::lies_far(problem(7, 420, 2, 3), 4), "44 MB");
  EXPECT(!kernels::lies_far(problem(1, 40, 2, 32), 4), "6 MB");
}

}  // namespace
}  // namespace ortconv
