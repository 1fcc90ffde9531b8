#include "kernels/integer_conv/arrange.h"

#include <algorithm>
#include <new>

#include "base/math.h"
#include "base/parallel.h"

namespace ortconv::kernels {
namespace {

constexpr int kMostDepth = 4;

}  // namespace

size_t arranged_bytes(const IntegerConvLayout& layout, int64_t blocks, int64_t lane_bytes) {
  const int64_t room = layout.plane * layout.planes * lane_bytes;
  if (blocks != 0 && room > (int64_t{1} << 60) / blocks) throw std::bad_alloc();
  return static_cast<size_t>(ceil_div(room * blocks + kReadBeyond, 64) * 64);
}

void arrange(const ConvProblem& problem, const IntegerConvLayout& layout, const IntegerConvWeights& weights,
             const uint8_t* x, const IntegerShift& shift, uint32_t* out, const Parallel& parallel) {
  const IntegerConvKernel& kernel = weights.kernel();
  const int64_t inputs = problem.ic / problem.g, blocks = weights.blocks(), planes = problem.g * blocks * layout.planes;
  if (planes == 0) return;
  const auto copies = static_cast<int64_t>(layout.copies.front().size());  // of every plane
  // Several work items per thread.
  const int64_t wanted = parallel.threads == 1 ? 1 : 4 * parallel.threads;
  const int64_t pieces = std::clamp<int64_t>(ceil_div(wanted, planes), 1, ceil_div(copies, 64));
  const int64_t each = ceil_div(copies, pieces);
  for_each(parallel, planes * pieces, [&](int64_t item) {
    const int64_t plane = item / pieces, begin = item % pieces * each, phase = plane % layout.planes;
    const int64_t group = plane / layout.planes / blocks, block = plane / layout.planes % blocks;
    const int64_t first = block * kernel.depth;
    const uint8_t* channels[kMostDepth];
    for (int64_t i = 0; i < kernel.depth; ++i) {
      // A lane without a channel repeats the first one: its weights are 0.
      const int64_t place = first + i < inputs ? first + i : first;
      channels[i] = x + (group * inputs + weights.channel_at(group, place)) * layout.inputs;
    }
    uint32_t* const to_group = out + group * blocks * layout.planes * layout.plane;
    kernel.interleave({channels, layout.copies[phase].data() + begin, std::clamp<int64_t>(copies - begin, 0, each),
                       layout.axes.back().stride, layout.inputs, shift,
                       to_group + block * layout.block_stride + phase * layout.plane});
  });
}

void arrange_channel(const IntegerConvLayout& layout, const IntegerConvKernel& kernel, const uint8_t* x,
                     const IntegerShift& shift, unsigned char* out) {
  const int64_t bytes = layout.plane * number_bytes(kernel);
  for (const std::vector<IntegerCopy>& copies : layout.copies) {
    kernel.widen(
        {&x, copies.data(), static_cast<int64_t>(copies.size()), layout.axes.back().stride, layout.inputs, shift, out});
    out += bytes;
  }
}

}  // namespace ortconv::kernels
