// What is known of a node before its inputs: classes, taps, panels, packed weights.
//
// Per axis a transposed convolution writes  y = x * s + k * d - pad.  With  k * d = q * s + r  (0 <= r < s) this is
// y = (x + q) * s + r - pad: taps of equal r form a *class*, and the outputs of a class are an ordinary correlation
// of src with the taps of that class at shifts q. Nothing here depends on pad, so neither do the packed weights.
// A (forward) convolution is one class holding every tap; its stride acts on the src side instead.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "base/math.h"
#include "kernels/bf16_split/bf16_split.h"
#include "kernels/conv/conv.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/epilogue/epilogue.h"
#include "kernels/gemm/gemm.h"
#include "kernels/interleave/interleave.h"
#include "kernels/to_float/to_float.h"
#include "kernels/transpose/transpose.h"

namespace ortconv::kernels {

// Taps of one axis that a set of classes shares: every class of the group has exactly one tap at each of its shifts q.
// Without merging a group is one class with all its taps. With merging, all shifts that the same classes see form a
// group: the classes are rows of one GEMM, which loads src once for all of them, and the sums of a class are the total
// of the groups it is in.
struct AxisGroup {
  std::vector<int64_t> classes;            // the residues r
  std::vector<std::vector<int64_t>> taps;  // taps[i] are the kernel positions k of classes[i]; equal lengths
  int64_t num_taps() const { return static_cast<int64_t>(taps[0].size()); }
  int64_t num_classes() const { return static_cast<int64_t>(classes.size()); }
};

struct AxisPlan {
  int64_t ker, stride, dilation;
  int64_t src_step;  // src positions per output position of one class
  int64_t dst_step;  // number of classes
  std::vector<AxisGroup> groups;
};

// One GEMM: a group on every axis. Its rows, for each dst channel, are the classes in row-major order.
struct GemmGroup {
  int64_t axis_group[kMaxSpatial];
  int64_t num_classes, num_taps;
  int64_t weights_before;           // packed weights per (dst channel, src channel) of the groups before this one
  int64_t taps_before;              // likewise its first entry in the table of tap offsets
  std::vector<int64_t> unit_class;  // which class of the unit each class is
  std::vector<int64_t> wei_offset;  // [class][tap] into the weights, without the channels
};

// GEMM groups that together fill whole rows of dst: one class of every axis but the last, or all classes if merged.
struct Unit {
  int64_t first_group, num_groups;
  int64_t num_classes;               // row-major, the last axis complete
  std::vector<int64_t> outer_class;  // [num_classes / classes of the last axis][axes before the last]: the residues
};

struct Plan {
  Op op;
  Packing packing;
  DataType dtype;                    // of src, weights, bias and dst
  size_t element_bytes, cell_bytes;  // of them; of an operand of the GEMM or a sum
  int ndims;
  int64_t g, ic, oc;  // channels per group
  AxisPlan axis[kMaxSpatial];
  int64_t num_classes, num_taps;  // all axes together
  bool merged;                    // classes share GEMMs, and therefore shifts

  std::vector<GemmGroup> groups;  // the last axis varies fastest
  std::vector<Unit> units;

  // dst channels are cut into blocks of nearly equal size, src channels into chunks of k_chunk.
  int64_t num_blocks;
  int64_t k_chunk;
  int64_t piece;             // products that are summed one after the other; in parts: taps of kPartChannels channels
  bool exact_enough = true;  // the sums, which may be too long for that
  int64_t block_begin(int64_t block) const { return even_begin(oc, block, num_blocks, row_granule); }

  bool slow_l3;         // of the CPU
  int64_t mr;           // most rows of one call of the kernel that is used
  int64_t row_granule;  // its calls have a multiple of this many rows, but for the last
  std::variant<const GemmKernel*, const BasicGemmKernel<double>*, const BasicGemmKernel<BfloatPair>*> gemm;
  template <class T>
  const BasicGemmKernel<T>& gemm_kernel() const {
    return **std::get_if<const BasicGemmKernel<T>*>(&gemm);
  }
  // Whether operands are pairs of channels: of weights packed tap by tap only.
  bool in_pairs() const { return std::holds_alternative<const BasicGemmKernel<BfloatPair>*>(gemm); }
  const Bf16SplitKernel* parts;  // null: `gemm` is used
  int64_t num_parts;
  const InterleaveKernel* interleave;
  const TransposeKernel* transpose;
  const ToFloatKernel* widen;
  const EpilogueKernel* activate;
  const DepthwiseKernel* depthwise;

  int64_t wei_0, wei_1, wei_x[kMaxSpatial];
  Buffer packed;      // in parts or not; empty when the weights are not constant
  PlanPtr in_floats;  // of a plan with parts or pairs: what it does with a src that they do not suit

  int64_t packed_size() const { return g * oc * ic * num_taps; }
  // Packed weights of one block of dst channels and one GEMM group, laid out [chunk][panel][tap][src channel][row].
  int64_t packed_offset(int64_t group_index, int64_t block, const GemmGroup& gemm_group) const {
    const int64_t begin = block_begin(block), count = block_begin(block + 1) - begin;
    return ((group_index * oc + begin) * num_taps + count * gemm_group.weights_before) * ic;
  }
};

// Rows [begin, end) of panel p when `rows` rows are spread evenly over panels of at most mr.
struct Panels {
  int64_t rows, count, granule;
  Panels(int64_t rows, int64_t mr, int64_t granule = 1) : rows(rows), count(ceil_div(rows, mr)), granule(granule) {}
  int64_t begin(int64_t p) const { return even_begin(rows, p, count, granule); }
};

// Packs the weights of one (group, block) into `packed`, the start of the whole packed array.
void pack_weights(const Plan& plan, const void* wei, int64_t group_index, int64_t block, void* packed);

}  // namespace ortconv::kernels
