#include "kernels/conv/bf16_split_stages.h"

#include <algorithm>

#include "base/math.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kOutside = -1;
// Most packed weights that one call should read: they then stay in L2 from one tile to the next.
constexpr int64_t kCallWeights = 96 << 10;

// Collects calls of the GEMM, to make several at a time.
class Calls {
 public:
  explicit Calls(const Bf16SplitKernel& kernel) : kernel_(kernel) {}

  void add(SplitGemmArgs call) {
    if (count_ == kMost) run();
    std::copy_n(call.c, call.rows, rows_[count_]);
    call.c = rows_[count_];
    calls_[count_++] = call;
  }
  void run() {
    kernel_.gemm(calls_, count_);
    count_ = 0;
  }

 private:
  static constexpr int64_t kMost = 16;
  const Bf16SplitKernel& kernel_;
  SplitGemmArgs calls_[kMost];
  float* rows_[kMost][kMaxPartRows];
  int64_t count_ = 0;
};

// Packed rows of weights of the first GEMM groups, of so many dst channels: each group has whole tiles.
int64_t padded_rows(const Plan& plan, int64_t channels, int64_t groups) {
  if (!plan.merged) {  // one class each
    const bool all = groups == static_cast<int64_t>(plan.groups.size());
    return align_up(channels, kPartRows) * (all ? plan.num_taps : plan.groups[groups].taps_before);
  }
  int64_t rows = 0;
  for (int64_t i = 0; i < groups; ++i) {
    rows += align_up(channels * plan.groups[i].num_classes, kPartRows) * plan.groups[i].num_taps;
  }
  return rows;
}

// Numbers of such a row.
int64_t row_size(const Plan& plan) { return align_up(plan.ic, kPartChannels) * plan.num_parts; }

}  // namespace

double parts_cost(const Plan& plan, const ArchFlags& arch) {
  const Bf16SplitKernel& kernel = *get_bf16_split_kernel(arch);
  // Cycles for one tile of 16 rows and 16 positions: per tile of sums; and those for 256 products of floats. Then what
  // a copy of 16 positions of a src channel takes more, per part beyond the first.
  constexpr double kSumsCost = 110, kFloatCost = 10, kCopyCost = 2.5;
  constexpr double kProducts[] = {1, 4, 6};
  const int64_t blocks = ceil_div(plan.ic, kPartChannels);
  double in_parts = kCopyCost * static_cast<double>((plan.num_parts - 1) * plan.ic), in_floats = 0;
  for (const GemmGroup& group : plan.groups) {
    if (group.num_taps == 0) continue;
    const double rows = static_cast<double>(plan.oc * group.num_classes);
    const double tiles = static_cast<double>(align_up(plan.oc * group.num_classes, kPartRows) / kPartRows);
    const double depth = static_cast<double>(group.num_taps);
    const double products = kProducts[plan.num_parts - 1] * depth * static_cast<double>(blocks);
    in_parts += tiles * (kernel.product_cost * products + kSumsCost);
    in_floats += rows / kPartRows * kFloatCost * depth * static_cast<double>(plan.ic);
  }
  return in_parts / in_floats;
}

bool parts_pay(Plan& plan, const ArchFlags& arch, const void* wei) {
  plan.num_parts = with_float_type(plan.dtype, [](auto zero) { return kNumParts<decltype(zero)>; });
  const Bf16SplitKernel* kernel = get_bf16_split_kernel(arch);
  return kernel != nullptr && plan.num_parts > 0 && plan.num_parts <= kernel->most_parts &&
         parts_cost(plan, arch) < 1 && parts_suit(plan.dtype, wei, plan.g * plan.oc * plan.ic * plan.num_taps);
}

int64_t parts_packed_offset(const Plan& plan, int64_t group_index, int64_t block, const GemmGroup& gemm_group) {
  // Blocks begin at multiples of kPartRows.
  const int64_t begin = plan.block_begin(block), count = plan.block_begin(block + 1) - begin;
  const int64_t rows_before = begin * plan.num_taps + padded_rows(plan, count, &gemm_group - plan.groups.data());
  return group_index * (parts_packed_size(plan) / plan.g) + rows_before * row_size(plan);
}

int64_t parts_packed_size(const Plan& plan) {
  return plan.g * padded_rows(plan, plan.oc, static_cast<int64_t>(plan.groups.size())) * row_size(plan);
}

template <class T>
void pack_parts(const Plan& plan, const T* wei, int64_t group_index, int64_t block, uint16_t* packed) {
  const int64_t oc_begin = plan.block_begin(block), oc_count = plan.block_begin(block + 1) - oc_begin;
  const bool transposed = plan.op == Op::kConvTranspose;
  const int64_t oc_stride = transposed ? plan.wei_1 : plan.wei_0;
  const int64_t ic_stride = transposed ? plan.wei_0 : plan.wei_1;
  wei += group_index * (transposed ? plan.ic : plan.oc) * plan.wei_0 + oc_begin * oc_stride;
  for (const GemmGroup& group : plan.groups) {
    uint16_t* out = packed + parts_packed_offset(plan, group_index, block, group);
    const Panels panels(oc_count * group.num_classes, plan.mr, plan.row_granule);
    for (int64_t panel = 0; panel < panels.count; ++panel) {
      const int64_t begin = panels.begin(panel), rows = panels.begin(panel + 1) - begin;
      const int64_t padded = align_up(rows, kPartRows);
      for (int64_t c0 = 0; c0 < plan.ic; c0 += kPartChannels) {
        for (int64_t tap = 0; tap < group.num_taps; ++tap, out += kNumParts<T> * padded * kPartChannels) {
          for (int64_t row = 0; row < padded; ++row) {
            const int64_t oc = (begin + row) / group.num_classes, cls = (begin + row) % group.num_classes;
            for (int64_t i = 0; i < kPartChannels; ++i) {
              const int64_t c = c0 + part_channel(i);
              uint16_t parts[kNumParts<T>] = {};
              if (row < rows && c < plan.ic) {
                const int64_t tap_offset = group.wei_offset[cls * group.num_taps + tap];
                split_number(widen(wei[c * ic_stride + oc * oc_stride + tap_offset]), kNumParts<T>, parts);
              }
              const int64_t at =
                  ((row / kPartRows * kPartChannels / 2 + i / 2) * kPartRows + row % kPartRows) * 2 + i % 2;
              for (int64_t part = 0; part < kNumParts<T>; ++part) out[part * padded * kPartChannels + at] = parts[part];
            }
          }
        }
      }
    }
  }
}

template <class T>
uint32_t gather_parts(const Plan& plan, const Geometry& geo, const ConvProblem& p, const Block& block, const T* src,
                      const int64_t* sources, uint16_t* grid) {
  const int last = plan.ndims - 1;
  const AxisFrame& f = geo.axis[last];
  const int64_t step = plan.axis[last].src_step, src_x = p.src_x[last];
  const int64_t plane_rows = geo.image_rows * geo.batch_block;
  const auto zero = [&](uint16_t* cells, int64_t count) {
    for (int64_t part = 0; part < kNumParts<T>; ++part) {
      std::fill_n(cells + part * geo.part_stride, count * kPartChannels, uint16_t{0});
    }
  };
  uint32_t largest = 0;
  src += block.group * plan.ic * p.src_c;
  for (int64_t c = 0; c < plan.ic; c += kPartChannels, grid += kNumParts<T> * geo.part_stride) {
    const int64_t channels = std::min(kPartChannels, plan.ic - c);
    for (int64_t plane = 0; plane < geo.outer_planes * f.num_planes; ++plane) {
      const int64_t first =
          plane_origin(plan.op, plan.axis[last], f, p.pad[last], plane % f.num_planes) + step * block.begin[last];
      // The cells [begin, end) are inside src.
      const int64_t begin = std::clamp<int64_t>(-floor_div(first, step), 0, f.grid);
      const int64_t end = std::clamp<int64_t>(floor_div(p.src_size[last] - 1 - first, step) + 1, begin, f.grid);
      const int64_t* source = sources + plane / f.num_planes * plane_rows;
      uint16_t* out = grid + plane * geo.plane_size * kPartChannels;
      for (int64_t row = 0, rows; row < plane_rows; row += rows, out += rows * f.grid * kPartChannels) {
        rows = 1;
        if (source[row] == kOutside || begin == end) {
          zero(out, f.grid);
          continue;
        }
        // Whole rows that are next to each other in src, too, are as good as one.
        while (end - begin == f.grid && row + rows < plane_rows &&
               source[row + rows] == source[row] + rows * f.grid * step * src_x) {
          ++rows;
        }
        zero(out, begin);
        const T* in = src + c * p.src_c + source[row] + (first + begin * step) * src_x;
        largest = std::max(largest,
                           plan.parts->split(SplitArgs<T>{in, channels, p.src_c, (rows - 1) * f.grid + end - begin,
                                                          step * src_x, out + begin * kPartChannels, geo.part_stride}));
        zero(out + end * kPartChannels, f.grid - end);
      }
      zero(out, geo.plane_size - plane_rows * f.grid);
    }
  }
  return largest;
}

void multiply_parts(const Plan& plan, const Geometry& geo, const int64_t* tap_offsets, const Unit& unit,
                    int64_t group_index, int64_t first, int64_t end, const uint16_t* cells, int64_t columns,
                    float* tile) {
  const int64_t oc_begin = plan.block_begin(first), oc_count = plan.block_begin(end) - oc_begin;
  const int64_t blocks = ceil_div(plan.ic, kPartChannels);
  if (plan.merged) std::fill_n(tile, oc_count * unit.num_classes * geo.columns, 0.0f);
  Calls calls(*plan.parts);
  for (int64_t i = 0; i < unit.num_groups; ++i) {
    const GemmGroup& group = plan.groups[unit.first_group + i];
    for (int64_t block = first; block < end; ++block) {
      const int64_t block_oc = plan.block_begin(block + 1) - plan.block_begin(block);
      const Panels panels(block_oc * group.num_classes, plan.mr, plan.row_granule);
      const uint16_t* weights = plan.packed.as<const uint16_t>() + parts_packed_offset(plan, group_index, block, group);
      float* block_tile = tile + (plan.block_begin(block) - oc_begin) * unit.num_classes * geo.columns;
      for (int64_t panel = 0; panel < panels.count; ++panel) {
        float* c[kMaxPartRows];
        const int64_t begin = panels.begin(panel), rows = panels.begin(panel + 1) - begin;
        for (int64_t row = 0; row < rows; ++row) {
          const int64_t oc = (begin + row) / group.num_classes, cls = (begin + row) % group.num_classes;
          c[row] = block_tile + (oc * unit.num_classes + group.unit_class[cls]) * geo.columns;
          if (group.num_taps == 0) std::fill_n(c[row], columns, 0.0f);
        }
        if (group.num_taps == 0) continue;
        // Numbers of the weights of one tap and one block of channels.
        const int64_t step = align_up(rows, kPartRows) * kPartChannels * plan.num_parts;
        const int64_t taps = group.num_taps, steps = std::min(geo.piece, kCallWeights / step);
        // A call does several blocks of channels with all taps, or one block with some of the taps.
        const int64_t chunks = std::min(blocks, ceil_div(taps * blocks, steps));
        const int64_t cuts = ceil_div(taps, steps);
        for (int64_t chunk = 0; chunk < chunks; ++chunk) {
          const int64_t k0 = blocks * chunk / chunks, k1 = blocks * (chunk + 1) / chunks;
          for (int64_t cut = 0; cut < cuts; ++cut) {
            const int64_t tap = taps * cut / cuts;
            calls.add({plan.num_parts, rows, columns, taps * (cut + 1) / cuts - tap, k1 - k0,
                       weights + (k0 * taps + tap) * step, cells + k0 * plan.num_parts * geo.part_stride,
                       tap_offsets + group.taps_before + tap, geo.part_stride, c, plan.merged || chunk > 0 || cut > 0});
          }
        }
        weights += step * taps * blocks;
      }
    }
  }
  calls.run();
}

#define INSTANTIATE(T)                                                                                     \
  template void pack_parts(const Plan&, const T*, int64_t, int64_t, uint16_t*);                            \
  template uint32_t gather_parts(const Plan&, const Geometry&, const ConvProblem&, const Block&, const T*, \
                                 const int64_t*, uint16_t*);
ORTCONV_FLOAT_SUM_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels
