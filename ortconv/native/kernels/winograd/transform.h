// The additions before and after the products, on whole vectors of tiles.
//
// A new kernel set supplies the functions in a file named after its ISA and one row in kernels.inc.
#pragma once

#include <array>
#include <cstdint>
#include <tuple>

#include "base/arch.h"
#include "base/float16.h"
#include "kernels/winograd/filter.h"

namespace ortconv::kernels::winograd {

// Every array may be read and written up to the next multiple of this.
constexpr int64_t kLanes = 16;

constexpr int kMaxPhases = 6;

// A filter that takes the elements of a window from `skip` on.
struct Cut {
  Filter filter;
  int64_t skip;
};

// dst[i * phases + p] = src[p * src_stride + i] + bias, rounded to T, where that index is in [begin, end), 0 <= i < n.
template <class T>
using InterleavePlanesFn = void (*)(const float* src, int64_t src_stride, int64_t n, int64_t begin, int64_t end,
                                    float bias, T* dst);

struct TransformKernels {
  const char* name;

  // B' of windows of a row, for several filters: element e of window t is row[t * step + e], zero where that index is
  // not in [begin, end). The points of window t go to out[p * out_stride + t], p counting through all filters. Returns
  // the largest magnitude among the elements read, as the bits of a float, which order NaN and infinities above every
  // number.
  uint32_t (*split)(const Cut* cuts, int64_t num_cuts, int64_t step, const float* row, int64_t begin, int64_t end,
                    int64_t tiles, float* out, int64_t out_stride);

  // B' across arrays: element i of window element e is in[e][i].
  void (*source)(Filter filter, int64_t step, const float* const* in, int64_t count, float* out, int64_t out_stride);

  // A' across arrays: point p is in[p * in_stride], output j is out[j * out_stride].
  void (*result)(Filter filter, int64_t step, const float* in, int64_t in_stride, int64_t count, float* out,
                 int64_t out_stride);

  // [phases]; null for those that it is not made for.
  template <class T>
  using Interleaves = std::array<InterleavePlanesFn<T>, kMaxPhases + 1>;
  std::tuple<Interleaves<float>, Interleaves<Float16>, Interleaves<Bfloat16>> interleave;

  template <class T>
  const Interleaves<T>& interleave_to() const {
    return std::get<Interleaves<T>>(interleave);
  }
};

// Sums and differences of such elements, times such weights, do not overflow.
constexpr float kMaxMagnitude = 0x1p50f;

// The best kernels for these flags; the portable ones when no other fit.
const TransformKernels& get_transform_kernels(const ArchFlags& arch);

}  // namespace ortconv::kernels::winograd
