// What is known of a node before its inputs: filters, families, units, transformed weights.
//
// Notation as in kernels/conv/plan.h: a transposed convolution writes y = q * s + r - pad for the classes r of an
// axis; the taps of class r are the kernel positions r, r + s, ..., which read src at q, q - 1, ... (q, q - d, ... with
// a dilation d, which is taken only where s is 1). A window of tile t on an axis is
//     w[e] = src[origin + v + d * (step * t + e)],      0 <= e < window,
// for each residue v of the dilation; class r takes the elements from `skip` on.
//
// Summed axes are not filtered: their windows have one output, and the GEMM sums the taps. More products, and a smaller
// error.
#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "kernels/epilogue/epilogue.h"
#include "kernels/gemm/gemm.h"
#include "kernels/interleave/interleave.h"
#include "kernels/to_float/to_float.h"
#include "kernels/winograd/filter.h"
#include "kernels/winograd/transform.h"
#include "kernels/winograd/winograd.h"

namespace ortconv::kernels::winograd {

constexpr int kMaxAxes = 3;
constexpr int64_t kMaxFamilies = 4;  // of a unit
constexpr int64_t kMaxSummedTaps = kMaxTaps * kMaxTaps;

struct AxisClass {
  Filter filter;
  int64_t skip;               // of separate windows, where it depends on the padding: the class
  std::vector<int64_t> taps;  // kernel positions, in the order of the window elements they multiply
  bool same_source(const AxisClass& other) const { return filter == other.filter && skip == other.skip; }
  int64_t num_taps() const { return static_cast<int64_t>(taps.size()); }
};

struct AxisPlan {
  int64_t ker, stride, dilation;
  int64_t step, window, reach;  // outputs of a window, its elements, most taps of a class
  bool separate;                // see Windows
  bool summed;                  // as all axes of one tap are
  std::vector<AxisClass> classes;
  int64_t num_classes() const { return static_cast<int64_t>(classes.size()); }
};

// Classes that multiply the same transformed src: the same filter and skip on every axis.
struct Family {
  AxisClass last;                     // of the last axis; on the other axes that of the unit
  std::vector<int64_t> last_classes;  // classes of the last axis
  int64_t num_classes;                // all axes together, those of the last axis varying fastest
  int64_t points;
  int64_t weights;                 // different points: those of Filter::kCopy share their weights
  std::vector<int64_t> weight_of;  // [point]
  std::vector<int64_t> source_of;  // [point]: which point of the unit
};

// Families that together fill whole rows of dst.
struct Unit {
  AxisClass outer[kMaxAxes];
  std::vector<int64_t> outer_classes;  // [num_outer][axes before the last]
  int64_t num_outer;
  size_t source;  // the first unit with the same transformed src: classes of summed axes all read it
  int64_t taps;   // of the summed axes before the last, all together
  std::vector<Family> families;
  std::vector<int64_t> family_of, index_in_family;  // [class of the last axis]
  int64_t points, outer_points;
  int64_t weights_before;  // packed weights of the units before, per pair of channels
};

struct Plan {
  Op op;
  DataType dtype;  // of the tensors
  int ndims;
  int64_t g, ic, oc;  // channels per group
  AxisPlan axis[kMaxAxes];
  std::vector<Unit> units;
  int64_t most_points;    // of a unit
  int64_t most_products;  // points times classes of all families of a unit
  int64_t num_weights;    // packed weights per pair of channels
  int64_t call;           // src channels of a sum in one call of the GEMM
  int64_t piece;          // products that are summed one after the other
  bool exact_enough;      // whether the error of floats is then no larger than that of an ordinary sum

  int64_t num_blocks;  // of dst channels
  int64_t block_begin(int64_t block) const { return oc * block / num_blocks; }

  bool far_source;  // a single thread may read the transformed src from L3: see Geometry

  const GemmKernel* gemm;
  const InterleaveKernel* interleave;
  const EpilogueKernel* activate;
  const ToFloatKernel* widen;
  const TransformKernels* transform;

  // [group][block][unit][family][weight][panel][call][tap of the summed axes][src channel][row]; rows: for each dst
  // channel the classes.
  Buffer packed;
  int64_t packed_size() const { return g * oc * ic * num_weights; }
  const float* packed_block(int64_t group, int64_t block) const {
    return packed.as<float>() + (group * oc + block_begin(block)) * ic * num_weights;
  }
};

// Everything but the weights, with the first `summed` axes summed; false where that is no problem for this family.
bool plan_sizes(Op op, const ConvProblem& static_part, Windows windows, int summed, DataType dtype,
                const ArchFlags& arch, Plan* plan);

// The same with as few summed axes as the error allows.
bool plan_sizes(Op op, const ConvProblem& static_part, Windows windows, DataType dtype, const ArchFlags& arch,
                Plan* plan);

// Fills in the packed weights.
void pack_weights(const ConvProblem& static_part, const void* wei, Plan* plan);

}  // namespace ortconv::kernels::winograd
