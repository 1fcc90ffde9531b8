#include "kernels/integer_conv/arrange.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "ops/parallel.h"

namespace ortconv::kernels {
namespace {

constexpr size_t kBeyond = 256;
constexpr int kMostDepth = 4;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Lanes {
  int64_t depth;  // channels in one
  int64_t bytes;  // of one
  int64_t blocks;

  Lanes(const ConvProblem& p, const IntegerConvWeights& weights)
      : depth(weights.depthwise() ? 1 : weights.kernel().depth),
        bytes(weights.depthwise() ? 4 / weights.kernel().depth : 4),
        blocks(weights.depthwise() ? p.ic : p.g * weights.blocks()) {}
};

class Arranger {
 public:
  Arranger(const ConvProblem& problem, const IntegerConvLayout& layout, const IntegerConvWeights& weights,
           const uint8_t* x, const IntegerShift& shift, unsigned char* out)
      : layout_(layout),
        kernel_(weights.kernel()),
        lanes_(problem, weights),
        group_(problem.ic / problem.g),
        group_blocks_(lanes_.blocks / problem.g),
        x_(x),
        shift_(shift),
        out_(out) {
    for (size_t i = 0; i + 1 < layout.axes.size(); ++i) rows_ *= layout.axes[i].grid;
  }

  void run(const Parallel& parallel) const {
    const int64_t planes = lanes_.blocks * layout_.planes;
    // Some for each thread, of some rows each.
    const int64_t pieces = std::clamp<int64_t>(ceil_div(4 * parallel.threads, planes), 1, ceil_div(rows_, 4));
    const int64_t each = ceil_div(rows_, pieces);
    for_each(parallel, planes * pieces, [&](int64_t item) {
      const int64_t plane = item / pieces, begin = item % pieces * each;
      for (int64_t row = begin; row < std::min(begin + each, rows_); ++row) {
        arrange_row(plane / layout_.planes, plane % layout_.planes, row);
      }
    });
  }

 private:
  void arrange_row(int64_t block, int64_t plane, int64_t row) const;
  void take(const uint8_t* const* rows, int64_t stride, int64_t count, unsigned char* out) const;
  void fill(unsigned char* out, int64_t count) const {
    std::memset(out, kernel_.takes_bytes() ? shift_.zero : 0, static_cast<size_t>(count * lanes_.bytes));
  }

  const IntegerConvLayout& layout_;
  const IntegerConvKernel& kernel_;
  const Lanes lanes_;
  const int64_t group_, group_blocks_;  // channels of a group, and lanes of these
  const uint8_t* x_;
  const IntegerShift shift_;
  unsigned char* out_;
  int64_t rows_ = 1;  // of a plane
};

void Arranger::arrange_row(int64_t block, int64_t plane, int64_t row) const {
  const IntegerAxis& last = layout_.axes.back();
  unsigned char* const out = out_ + ((block * layout_.planes + plane) * layout_.plane + row * last.grid) * lanes_.bytes;
  // From the last axis to the first one.
  const auto phases = static_cast<int64_t>(last.phases.size());
  const int64_t phase = last.phases[plane % phases];
  int64_t at = 0, scale = last.src;
  plane /= phases;
  for (size_t i = layout_.axes.size() - 1; i-- > 0;) {
    const IntegerAxis& axis = layout_.axes[i];
    const auto count = static_cast<int64_t>(axis.phases.size());
    const int64_t position = row % axis.grid * axis.stride + axis.phases[plane % count] - axis.pad;
    if (position < 0 || position >= axis.src) return fill(out, last.grid);
    at += position * scale;
    row /= axis.grid, plane /= count, scale *= axis.src;
  }
  // Position i of the row is i * stride + shift of the source.
  const int64_t shift = phase - last.pad;
  const int64_t begin = std::min(shift >= 0 ? 0 : ceil_div(-shift, last.stride), last.grid);
  const int64_t end = std::clamp(last.src > shift ? ceil_div(last.src - shift, last.stride) : 0, begin, last.grid);
  fill(out, begin);
  if (begin < end) {
    const uint8_t* rows[kMostDepth];
    const int64_t first = block % group_blocks_ * lanes_.depth, channels = block / group_blocks_ * group_;
    for (int64_t i = 0; i < lanes_.depth; ++i) {
      // The weights of channels that are none are 0.
      const int64_t channel = channels + (first + i < group_ ? first + i : first);
      rows[i] = x_ + channel * layout_.inputs + at + begin * last.stride + shift;
    }
    take(rows, last.stride, end - begin, out + begin * lanes_.bytes);
  }
  fill(out + end * lanes_.bytes, last.grid - end);
}

// Numbers of some rows, a stride apart.
void Arranger::take(const uint8_t* const* rows, int64_t stride, int64_t count, unsigned char* out) const {
  const auto convert = [&](const uint8_t* const* from, int64_t n, unsigned char* to) {
    if (lanes_.depth == 1) {
      kernel_.widen(from[0], n, shift_, to);
    } else {
      kernel_.interleave(from, n, shift_, reinterpret_cast<uint32_t*>(to));
    }
  };
  if (stride == 1) return convert(rows, count, out);
  constexpr int64_t kPiece = 256;
  uint8_t pieces[kMostDepth][kPiece];
  const uint8_t* from[kMostDepth];
  for (int64_t begin = 0; begin < count; begin += kPiece) {
    const int64_t n = std::min(kPiece, count - begin);
    for (int64_t r = 0; r < lanes_.depth; ++r) {
      const uint8_t* const row = rows[r] + begin * stride;
      from[r] = pieces[r];
      if (stride == 2) {  // which compilers make vectors of
        for (int64_t i = 0; i < n; ++i) pieces[r][i] = row[i * 2];
      } else {
        for (int64_t i = 0; i < n; ++i) pieces[r][i] = row[i * stride];
      }
    }
    convert(from, n, out + begin * lanes_.bytes);
  }
}

}  // namespace

size_t arranged_bytes(const ConvProblem& problem, const IntegerConvLayout& layout, const IntegerConvWeights& weights) {
  const Lanes lanes(problem, weights);
  const int64_t room = layout.plane * layout.planes * lanes.bytes;
  if (lanes.blocks != 0 && room > (int64_t{1} << 60) / lanes.blocks) throw std::bad_alloc();
  return static_cast<size_t>(room * lanes.blocks) + kBeyond;
}

void arrange(const ConvProblem& problem, const IntegerConvLayout& layout, const IntegerConvWeights& weights,
             const uint8_t* x, const IntegerShift& shift, unsigned char* out, const Parallel& parallel) {
  if (problem.ic == 0) return;
  Arranger(problem, layout, weights, x, shift, out).run(parallel);
}

}  // namespace ortconv::kernels
