#include <algorithm>

#include "base/ranges.h"
#include "kernels/gemm_col2im/item.h"
#include "kernels/gemm_col2im/lists.h"
#include "kernels/gemm_col2im/steps.h"

namespace ortconv::kernels::gemm_col2im {

Part part_of(const Plan& plan, const Geometry& geo, int64_t item) {
  Part part;
  const Axis& axis = geo.axis[0];
  part.channel = item % geo.num_blocks * geo.block_channels;
  part.channels = std::min(geo.block_channels, plan.oc - part.channel);
  item /= geo.num_blocks;
  part.j_begin = item % geo.num_slabs * geo.slab;
  part.j_count = std::min(geo.slab, axis.j_count - part.j_begin);
  item /= geo.num_slabs;
  part.group = item % plan.g;
  part.image = item / plan.g;
  if (geo.direct) {
    part.x_begin = axis.x_begin + part.j_begin, part.x_count = part.j_count;
    return part;
  }
  const int64_t least = axis.shift_of(0), most = axis.shift_of(axis.ker - 1);
  const int64_t end = std::min(axis.x_begin + axis.x_count, part.j_begin + part.j_count - least);
  part.x_begin = std::max(axis.x_begin, part.j_begin - most);
  part.x_count = std::max<int64_t>(0, end - part.x_begin);
  return part;
}

size_t scratch_bytes(const Plan& plan, const ConvProblem& full, int threads) {
  const Geometry geometry(plan, full, threads);
  if (geometry.wide) plan.wide(geometry.panel_height);  // which run() is not to allocate
  return geometry.slices + static_cast<size_t>(geometry.num_slices(threads)) * geometry.slice_bytes;
}

void run(const Plan& plan, const ConvProblem& full, const void* src, const void* wei, const void* bias, void* dst,
         void* scratch, const Parallel& parallel) {
  const Geometry geo(plan, full, parallel.threads);
  char* const shared = static_cast<char*>(scratch);
  if (plan.packed.empty()) {
    const int64_t panels = num_panels(plan, geo.panel_height);
    for_each(parallel, plan.g * panels, [&](int64_t i) {
      pack_weights(plan, full, wei, geo.panel_height, i / panels, i % panels, shared + geo.packed);
    });
  }
  const void* weights = plan.packed.empty() ? shared + geo.packed
                        : geo.wide          ? plan.wide(geo.panel_height)
                                            : plan.packed.as<const void>();
  const std::shared_ptr<const TileLists> lists = geo.has_one_tile ? plan.lists(geo) : nullptr;
  with_float_type(plan.dtype, [&](auto zero) {
    using T = decltype(zero);
    using Cell = Sum<T>;
    const Results<T> results{
        plan, full, geo, im2col::Kernels<T>(plan.arch), static_cast<const T*>(bias), static_cast<T*>(dst)};
    const auto run_parts = [&](const auto* in) {
      using In = std::remove_cv_t<std::remove_pointer_t<decltype(in)>>;
      const Operands<In> operands{plan, full, geo, im2col::Kernels<In>(plan.arch), in, weights, bias, dst, lists.get()};
      const std::shared_ptr<const StepLists> steps =
          geo.in_steps ? plan.steps(geo, geo.together(bias != nullptr)) : nullptr;
      const int64_t slices = geo.num_slices(parallel.threads);
      const auto slice_of = [&](int64_t i) { return shared + geo.slices + static_cast<size_t>(i) * geo.slice_bytes; };
      const auto store = [&](const Part& part, char* slice) {
        store_sums(results, part, slice, geo.in_steps ? &steps->of_slab[part.j_begin / geo.slab] : nullptr);
      };
      if (geo.shares_tiles) {
        const SharedPart parts{slice_of(0), shared + geo.shared_products};
        for (int64_t item = 0; item < geo.items; ++item) {
          const Part part = part_of(plan, geo, item);
          Ranges ranges(num_shared_ranges(plan, geo, part), 1, 1, slices);
          for_each(parallel, slices, [&](int64_t i) { multiply_shared(operands, part, parts, slice_of(i), &ranges); });
          add_shared(operands, part, parts);
          store(part, parts.slice);
        }
        return;
      }
      Ranges ranges(geo.items, 1, 1, slices);
      for_each(parallel, slices, [&](int64_t i) {
        char* const slice = slice_of(i);
        Held held;
        ranges.for_each_item([&](int64_t item) {
          const Part part = part_of(plan, geo, item);
          add_products(operands, part, slice, &held);
          store(part, slice);
        });
      });
    };
    if (std::is_same_v<T, Cell> || geo.narrow) return run_parts(static_cast<const T*>(src));
    if constexpr (!std::is_same_v<T, Cell>) {
      Cell* widened = at<Cell>(shared, geo.widened);
      for_each_range(parallel, geo.src_end, kManyCopied, [&](int64_t begin, int64_t end) {
        results.kernels.widen.run(static_cast<const T*>(src) + begin, end - begin, widened + begin);
      });
      run_parts(static_cast<const Cell*>(widened));
    }
  });
}

}  // namespace ortconv::kernels::gemm_col2im
