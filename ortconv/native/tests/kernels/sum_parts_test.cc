// Every sum_parts kernel this CPU has: exact, and it reads and writes nothing else.
#include "kernels/sum_parts/sum_parts.h"

#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "testing/each_kernel.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

int failures = 0, checked = 0;

void check(const SumPartsKernel& kernel, std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int num_vectors = below(9), repeats = below(4), src_size = 64, src_step = src_size + below(3);
  constexpr int kAround = kSumLanes;
  // Numbers that lanes outside of their parts must not read are NaN.
  std::vector<float> src(static_cast<size_t>(kAround + repeats * src_step + kAround),
                         std::numeric_limits<float>::quiet_NaN());
  std::vector<SumVector> vectors;
  std::vector<SumPart> parts;
  int offset = 0;
  for (int v = 0; v < num_vectors; ++v) {
    const int count = below(5);
    vectors.push_back({offset, count});
    offset += 1 + below(kSumLanes + 2);  // the next vector may begin before this one ends
    for (int i = 0; i < count; ++i) {
      const int begin = below(kSumLanes), end = begin + below(kSumLanes - begin + 1);
      const int at = below(src_size - (end - begin) + 1);
      parts.push_back({at - begin, static_cast<uint8_t>(begin), static_cast<uint8_t>(end)});
      for (int r = 0; r < repeats; ++r) {
        for (int lane = 0; lane < end - begin; ++lane) {
          src[static_cast<size_t>(kAround + r * src_step + at + lane)] = static_cast<float>(below(1000));
        }
      }
    }
  }
  const int dst_step = offset + kSumLanes + below(3);
  std::vector<float> dst(static_cast<size_t>(repeats * dst_step + kAround), -1.0f), want = dst;
  for (int r = 0; r < repeats; ++r) {
    const SumPart* part = parts.data();
    for (const SumVector& v : vectors) {
      float sums[kSumLanes] = {};
      for (int i = 0; i < v.parts; ++i, ++part) {
        for (int lane = part->begin; lane < part->end; ++lane) {
          sums[lane] += src[static_cast<size_t>(kAround + r * src_step + part->offset + lane)];
        }
      }
      for (int lane = 0; lane < kSumLanes; ++lane)
        want[static_cast<size_t>(r * dst_step + v.offset + lane)] = sums[lane];
    }
  }
  kernel.run(
      {vectors.data(), num_vectors, parts.data(), repeats, src.data() + kAround, src_step, dst.data(), dst_step});
  ++checked;
  if (dst == want) return;
  ++failures;
  std::printf("FAIL %s: %d vectors, %zu parts, %d repeats\n", kernel.name, num_vectors, parts.size(), repeats);
}

}  // namespace

int main() {
  test::for_each_kernel(get_sum_parts_kernel, [](const SumPartsKernel& kernel) {
    std::mt19937 random(5);
    for (int i = 0; i < 2000; ++i) check(kernel, random);
  });
  std::printf("%d runs, %d failures\n", checked, failures);
  return failures == 0 ? 0 : 1;
}
