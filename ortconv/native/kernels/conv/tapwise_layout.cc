#include "kernels/conv/tapwise_layout.h"

#include "base/math.h"
#include "kernels/bf16_split/magnitude.h"
#include "kernels/conv/stages.h"

namespace ortconv::kernels::tapwise {
namespace {

constexpr int64_t kSumBytes = 256 << 10;  // sums of a block for some images, meant to stay in L2
constexpr int64_t kSrcBytes = 512 << 10;  // copy of these images, likewise
constexpr int64_t kTileBytes = 24 << 10;  // of transposed sums, meant to stay in L1
constexpr int64_t kMostTileColumns = 128;

}  // namespace

Layout::Layout(const Plan& plan, const ConvProblem& p, int threads)
    : geometry(plan, p, threads), depth(depth_of(plan, plan.ic)), positions(1), sums(1) {
  const int last = plan.ndims - 1;
  const auto cell = static_cast<int64_t>(plan.cell_bytes);
  for (int a = 0; a <= last; ++a) {
    geometry.axis[a].grid = geometry.axis[a].positions;
    positions *= p.src_size[a];
    sums *= geometry.axis[a].positions;
  }
  const int64_t image_sums = plan.num_classes * sums * kBlockColumns * cell;
  const int64_t most = std::min(kSumBytes / image_sums, kSrcBytes / (positions * depth * cell));
  num_blocks = ceil_div(p.mb, std::max<int64_t>(most, 1));
  images = ceil_div(p.mb, num_blocks);
  along_batch = p.src_size[last] < std::min(images, plan.mr);
  const int64_t row_classes = plan.axis[last].dst_step;
  geometry.columns = std::clamp<int64_t>(kTileBytes / (kBlockColumns * row_classes * cell) / kGemmColumns, 1,
                                         kMostTileColumns / kGemmColumns) *
                     kGemmColumns;

  slice_tile = align64(images * image_sums);
  slice_rows = slice_tile + align64(kBlockColumns * row_classes * geometry.columns * cell);
  slice_segments = slice_rows + align64(row_classes * static_cast<int64_t>(sizeof(void*)));
  slice_size = slice_segments +
               align64((geometry.columns / geometry.axis[last].grid + 2) * static_cast<int64_t>(sizeof(Segment)));
  phases = 0;
  int64_t num_phases = 0;
  for (int a = 0; a <= last; ++a) num_phases += plan.axis[a].dst_step;
  bias = phases + align64(num_phases * 8);
  largest = bias + align64(p.oc * cell);
  src = largest + align64(sizeof(Magnitude));
  slices = src + align64(p.mb * plan.g * depth * positions * cell);
}

}  // namespace ortconv::kernels::tapwise
