#include "cuda/plan/compressed_plan.h"

#include <algorithm>
#include <cstddef>

#include "base/math.h"
#include "cuda/params/compressed.h"
#include "cuda/plan/describe.h"
#include "cuda/plan/gemm_plan.h"
#include "cuda/plan/products.h"
#include "kernels/matmul_nbits/codes.h"

namespace ortconv::cuda {
namespace {

// The most rows for which each kernel is faster than dequantizing first. Dequantizing costs as much memory traffic as
// reading the quantized weights ten times or more.
constexpr int64_t kMostRowsOfDots = 16, kMostRowsOfFloatDots = 64, kMostRowsOfMma = 128;

constexpr int64_t kMostRowsAtOnce = 8, kMostColumnsAtOnce = 4;
constexpr int kWarps = kDotThreads / 32;
constexpr int64_t kWantedWarps = 16;  // of a multiprocessor
constexpr int kUnpackedSteps = 4;     // of a block of threads

bool has_table(const CompressedProblem& p) { return p.code == kernels::Code::kTable; }
size_t table_bytes(const CompressedProblem& p) { return has_table(p) ? kTableNumbers * sizeof(float) : 0; }

CompressedWeights describe(const CompressedProblem& p) {
  CompressedWeights weights{};
  weights.columns = p.n;
  weights.depth = p.k;
  weights.block = p.block;
  weights.blocks = p.k / p.block;
  weights.flip = !kernels::is_signed(p.code) ? 0 : kernels::bits_of(p.code) == 4 ? 0x88888888u : 0x80808080u;
  return weights;
}

void add_pointers(size_t at, const CompressedProblem& p, Launch* launch) {
  launch->pointers.push_back({at + offsetof(CompressedWeights, codes), Buffer::kCodes});
  launch->pointers.push_back({at + offsetof(CompressedWeights, scales), Buffer::kScales});
  if (p.has_zeros) launch->pointers.push_back({at + offsetof(CompressedWeights, zeros), Buffer::kZeros});
  if (has_table(p)) launch->pointers.push_back({at + offsetof(CompressedWeights, table), Buffer::kTable});
}

// Options of the program compressed_dots.
struct DotsShape {
  int words, rows, columns, depth_warps;
  bool whole;
};

// Elements of a column that a lane loads at once for tensor cores: 16 bytes.
int64_t unit_of_mma(const CompressedProblem& p) { return 128 / kernels::bits_of(p.code); }

// The part of the shape that depends on the weights: how many words a lane can load at once.
DotsShape shape_of_weights(const CompressedProblem& p) {
  const int64_t per_word = 32 / kernels::bits_of(p.code);
  for (const int words : {4, 2, 1}) {
    const int64_t unit = words * per_word;
    if (p.codes_aligned && p.k % unit == 0 && p.block % unit == 0) return {words, 1, 1, 1, true};
  }
  return {2, 1, 1, 1, false};
}

DotsShape shape_of(const CompressedProblem& p, const Device& device) {
  DotsShape shape = shape_of_weights(p);
  while (!p.has_index && shape.rows < std::min(p.m, kMostRowsAtOnce)) shape.rows *= 2;
  shape.columns = kMostColumnsAtOnce;
  const int64_t steps = ceil_div(p.k, int64_t{32} * shape.words * (32 / kernels::bits_of(p.code)));
  const int64_t wanted = kWantedWarps * device.multiprocessors;
  const auto warps = [&] { return ceil_div(p.n, shape.columns) * shape.depth_warps * ceil_div(p.m, shape.rows); };
  // With more rows, a step of src for all warps would need too much shared memory.
  while (warps() < wanted && shape.depth_warps < steps && shape.depth_warps * shape.rows < kWarps) {
    shape.depth_warps *= 2;
  }
  while (warps() < wanted && shape.columns > 1) shape.columns /= 2;
  return shape;
}

// Blocks per multiprocessor, limited by the registers that hold sums.
int blocks_of(const DotsShape& shape) {
  const int sums = shape.columns * shape.rows;
  return sums <= 2 ? 3 : sums <= 8 ? 2 : 1;
}

// Shared memory of compressed_dots.
size_t shared_bytes(const DotsShape& shape, int bits) {
  const int fours = shape.words * (32 / bits) / 4;
  return sizeof(float) *
         static_cast<size_t>(shape.rows * shape.depth_warps * fours * kFourPitch + kWarps * shape.columns * shape.rows);
}

// Options of the program compressed_mma.
struct MmaShape {
  int tiles, depth_warps;
};

MmaShape mma_shape_of(const CompressedProblem& p, const Device& device) {
  constexpr int kMostTiles = 8, kMostTilesOfSteps = 16;  // limits the shared memory of a step of src
  MmaShape shape{1, 1};
  while (shape.tiles < kMostTiles && shape.tiles * 8 < p.m) shape.tiles *= 2;
  const int64_t steps = ceil_div(p.k, 4 * unit_of_mma(p));
  const int64_t wanted = kWantedWarps * device.multiprocessors;
  const int64_t warps = ceil_div(p.n, kMmaColumns) * ceil_div(p.m, shape.tiles * 8);
  const int most = std::min(kWarps, kMostTilesOfSteps / shape.tiles);
  while (warps * shape.depth_warps < wanted && shape.depth_warps < std::min<int64_t>(steps, most)) {
    shape.depth_warps *= 2;
  }
  return shape;
}

// A launch whose blocks compute `rows` by `columns` and advance along the depth by `step` elements.
Launch dots(const CompressedProblem& p, int64_t step, int rows, int columns) {
  CompressedDots params{};
  params.weights = describe(p);
  params.rows = p.m;
  params.step_blocks = step / p.block;
  params.step_rest = step % p.block;
  params.matrices = p.matrices;
  params.sharing = p.sharing;
  Launch launch;
  launch.grid[0] = static_cast<uint32_t>(ceil_div(p.n, columns));
  launch.grid[1] = static_cast<uint32_t>(std::min<int64_t>(ceil_div(p.m, rows), 0xffff));
  launch.block[0] = kDotThreads;
  set_params(params, &launch);
  add_pointers(offsetof(CompressedDots, weights), p, &launch);
  launch.pointers.push_back({offsetof(CompressedDots, src), Buffer::kX});
  launch.pointers.push_back({offsetof(CompressedDots, dst), Buffer::kY});
  if (p.has_index) launch.pointers.push_back({offsetof(CompressedDots, index), Buffer::kIndex});
  return launch;
}

}  // namespace

bool plan_mma(DataType dtype, const CompressedProblem& p, const Device& device, Plan* plan) {
  const int64_t unit = unit_of_mma(p);
  const bool whole = p.codes_aligned && p.k % unit == 0 && p.block % unit == 0;
  if (!whole || unit_of(dtype, device, {}) != Unit::kTensor) return false;
  const MmaShape shape = mma_shape_of(p, device);
  const int64_t step = shape.depth_warps * 4 * unit;
  const int rows = shape.tiles * 8;
  Launch launch = dots(p, step, rows, kWarps / shape.depth_warps * kMmaColumns);
  launch.program = {
      "compressed_mma",
      {option("ACTIVATE", 0), option("BITS", kernels::bits_of(p.code)), option("BLOCKS", shape.tiles == 8 ? 1 : 2),
       option("DEPTH_WARPS", shape.depth_warps), option("ELEMENT", element_of(dtype)), option("TABLE", has_table(p)),
       option("TILES", shape.tiles)}};
  launch.function = "compressed_mma";
  launch.shared_bytes = std::max(static_cast<size_t>(rows * (step * 2 + kMmaRowPadding)),
                                 static_cast<size_t>(kWarps * rows * kMmaSumPitch) * sizeof(float)) +
                        table_bytes(p);
  *plan = {0, {launch}};
  return true;
}

Plan plan_dots(DataType dtype, const CompressedProblem& p, const Device& device) {
  const int bits = kernels::bits_of(p.code);
  const DotsShape shape = shape_of(p, device);
  const int64_t step = int64_t{shape.depth_warps} * 32 * shape.words * (32 / bits);
  Launch launch = dots(p, step, shape.rows, kWarps / shape.depth_warps * shape.columns);
  launch.program = {"compressed_dots",
                    {option("ACTIVATE", 0), option("BITS", bits), option("BLOCKS", blocks_of(shape)),
                     option("COLUMNS", shape.columns), option("DEPTH_WARPS", shape.depth_warps),
                     option("ELEMENT", element_of(dtype)), option("GATHER", p.has_index), option("ROWS", shape.rows),
                     option("TABLE", has_table(p)), option("WHOLE", shape.whole), option("WORDS", shape.words)}};
  launch.function = "compressed_dots";
  launch.shared_bytes = shared_bytes(shape, bits) + table_bytes(p);
  return {0, {launch}};
}

bool plan_unpacked(DataType dtype, const CompressedProblem& p, const Device& device, const Options& options,
                   Plan* plan) {
  // For a misaligned X the GEMM falls back to direct convolution, which would need dequantized weights in a tensor.
  if (!p.x_aligned) return false;
  // A convolution with one tap over the rows of X, channels last.
  ConvProblem conv;
  conv.ndims = 1;
  conv.mb = conv.ker[0] = conv.stride[0] = conv.dilation[0] = 1;
  conv.ic = p.k;
  conv.oc = p.n;
  conv.src_size[0] = conv.dst_size[0] = p.m;
  conv.src_n = p.m * p.k;
  conv.src_c = conv.wei_1 = conv.wei_x[0] = conv.dst_c = 1;
  conv.src_x[0] = conv.wei_0 = p.k;
  conv.dst_n = p.m * p.n;
  conv.dst_x[0] = p.n;
  const Unit unit = unit_of(dtype, device, options);
  const auto products = Products::make(dtype, unit, kernels::Op::kConv, conv);
  Plan result;
  if (!products || !plan_gemm(dtype, kernels::Op::kConv, conv, device, options, true, {}, &result)) return false;

  const size_t packed = result.scratch_bytes;
  result.scratch_bytes += static_cast<size_t>(align_up(products->packed_bytes(conv), kBufferAlignment));
  for (Launch& launch : result.launches) {
    std::vector<Pointer> pointers;
    for (Pointer pointer : launch.pointers) {
      if (pointer.buffer == Buffer::kW) continue;  // read only by direct convolution, excluded above
      if (pointer.buffer == Buffer::kPacked) pointer = {pointer.at, Buffer::kScratch, packed};
      pointers.push_back(pointer);
    }
    launch.pointers = pointers;
  }

  const int bits = kernels::bits_of(p.code);
  Unpack params{};
  params.weights = describe(p);
  params.offset = products->weights_offset();
  params.panels = static_cast<int>(products->panels);
  params.steps = static_cast<int>(products->steps);
  params.whole = p.codes_aligned && p.k % products->chunk_elements == 0;
  Launch unpack;
  unpack.program = {
      "unpack",
      {option("ACTIVATE", 0), option("BITS", bits), option("ELEMENT", element_of(dtype)),
       option("FLOATS", unit == Unit::kFloat), option("TABLE", has_table(p)), option("TF32", unit == Unit::kTf32)}};
  unpack.function = "unpack";
  unpack.grid[0] = static_cast<uint32_t>(products->panels);
  unpack.grid[1] = static_cast<uint32_t>(std::min<int64_t>(ceil_div(products->steps, kUnpackedSteps), 0xffff));
  unpack.block[0] = kDotThreads;
  unpack.shared_bytes = table_bytes(p);
  set_params(params, &unpack);
  add_pointers(offsetof(Unpack, weights), p, &unpack);
  unpack.pointers.push_back({offsetof(Unpack, packed), Buffer::kScratch, packed});
  result.launches.insert(result.launches.begin(), unpack);
  *plan = result;
  return true;
}

Plan plan_compressed(DataType dtype, const CompressedProblem& p, const Device& device, const Options& options) {
  if (p.m == 0 || p.n == 0) return {};
  if (p.has_index) return plan_dots(dtype, p, device);
  Plan plan;
  if (p.m <= kMostRowsOfMma && plan_mma(dtype, p, device, &plan)) return plan;
  const bool floats = unit_of(dtype, device, options) == Unit::kFloat;
  if (p.m > (floats ? kMostRowsOfFloatDots : kMostRowsOfDots) && plan_unpacked(dtype, p, device, options, &plan)) {
    return plan;
  }
  return plan_dots(dtype, p, device);
}

}  // namespace ortconv::cuda
