#include <algorithm>

#include "kernels/gemm_col2im/adder.h"
#include "kernels/gemm_col2im/item.h"
#include "kernels/gemm_col2im/lists.h"
#include "kernels/gemm_col2im/multiplier.h"
#include "kernels/gemm_col2im/tiles.h"

namespace ortconv::kernels::gemm_col2im {
namespace {

template <class In>
class Worker {
 public:
  using Cell = Sum<In>;

  // The sums are in `sums`, a slice, too.
  Worker(const Operands<In>& operands, const Part& part, char* slice, char* sums, Held* held)
      : plan_(operands.plan),
        geo_(operands.geometry),
        part_(part),
        columns_(columns_of(geo_, part)),
        room_(room_of(operands, part, slice, sums)),
        lists_(plan_, geo_, part, operands.lists,
               {at<Segment>(slice, geo_.segments), at<Row>(slice, geo_.rows), at<int64_t>(slice, geo_.shifts)},
               &held->listed),
        multiplier_(operands, part, lists_, room_, at<Cell>(slice, geo_.src), &held->copies),
        adder_(operands, part, lists_, room_.sums) {}

  void add_all();
  void multiply_range(int64_t range, const SharedPart& shared);
  void add_shared(const SharedPart& shared);

 private:
  static ProductRoom<Cell> room_of(const Operands<In>& operands, const Part& part, char* slice, char* sums);
  int64_t row_begin() const { return part_.channel * plan_.taps; }
  int64_t row_end() const { return (part_.channel + part_.channels) * plan_.taps; }
  Cell* shared_products(const SharedPart& shared, const Tile& tile) const;
  // Whether add() writes every sum, and adds to none.
  bool writes_sums() const { return geo_.sums_parts && lists_.of_plan()->listed.any_meets; }
  void add(const Tile& tile, const Cell* products) const {
    geo_.sums_parts ? adder_.sum(tile, products) : adder_.add(tile, products);
  }
  template <class Fn>
  void for_each_tile(int64_t begin, int64_t end, int64_t row_begin, int64_t row_end, Fn fn);

  const Plan& plan_;
  const Geometry& geo_;
  const Part& part_;
  const Columns columns_;
  ProductRoom<Cell> room_;
  PartLists lists_;
  const Multiplier<In> multiplier_;
  const Adder<In> adder_;
};

template <class In>
auto Worker<In>::room_of(const Operands<In>& operands, const Part& part, char* slice, char* sums) -> ProductRoom<Cell> {
  const Geometry& geo = operands.geometry;
  ProductRoom<Cell> room{at<Cell>(slice, geo.products),
                         at<Cell>(slice, geo.transposed),
                         at<Cell>(slice, geo.totals),
                         at<Cell>(sums, geo.sums),
                         nullptr,
                         geo.channel_size};
  if (geo.in_dst) {
    room.channel_pitch = operands.problem.dst_c;
    const int64_t first = part.image * operands.problem.dst_n +
                          (part.group * operands.plan.oc + part.channel) * room.channel_pitch +
                          part.j_begin * geo.inner_j;
    room.dst = static_cast<char*>(operands.dst) + first * static_cast<int64_t>(size_of(operands.plan.dtype));
  }
  return room;
}

// Calls fn(tile) for the tiles of some columns and rows from which something reaches dst.
template <class In>
template <class Fn>
void Worker<In>::for_each_tile(int64_t begin, int64_t end, int64_t row_begin, int64_t row_end, Fn fn) {
  Tile tile;
  for (tile.begin = begin; tile.begin < end; tile.begin += tile.columns) {
    const int64_t index = (tile.begin - columns_.origin) / geo_.most_columns;
    tile.columns = std::min(columns_.origin + (index + 1) * geo_.most_columns, end) - tile.begin;
    for (tile.row_begin = row_begin; tile.row_begin < row_end; tile.row_begin = tile.row_end) {
      const int64_t panel = tile.row_begin / geo_.panel_height * geo_.panel_height;
      tile.row_end = std::min((geo_.sums_parts ? tile.row_begin : panel) + geo_.tile_rows, row_end);
      if (lists_.list(tile)) fn(tile);
    }
  }
}

template <class In>
void Worker<In>::add_all() {
  if (!geo_.direct && !writes_sums()) adder_.clear();
  for_each_tile(columns_.begin, columns_.end, row_begin(), row_end(), [&](const Tile& tile) {
    const Cell* products = multiplier_.multiply(tile);
    if (!geo_.direct) add(tile, products);
  });
}

// Where the products of a tile are among those of all: [tile of columns][row][column].
template <class In>
auto Worker<In>::shared_products(const SharedPart& shared, const Tile& tile) const -> Cell* {
  const int64_t index = tile.begin / geo_.most_columns - columns_.begin / geo_.most_columns;
  return at<Cell>(shared.products, 0) +
         (index * (row_end() - row_begin()) + tile.row_begin - row_begin()) * im2col::pitch_of(geo_.tile_columns);
}

template <class In>
void Worker<In>::multiply_range(int64_t range, const SharedPart& shared) {
  const SharedTiles tiles(plan_, geo_, part_);
  const SharedTiles::Range some = tiles.range(range);
  for_each_tile(some.begin, some.end, some.row_begin, some.row_end, [&](const Tile& tile) {
    const int64_t column = tile.begin - tiles.tile_of(tile.begin);
    if (!geo_.direct) room_.products = shared_products(shared, tile) + column;
    if (geo_.by_rows) {
      room_.transposed = at<Cell>(shared.slice, geo_.transposed) + column * geo_.transposed_pitch +
                         tile.row_begin / geo_.panel_height * geo_.panel_height - tiles.first_row();
    }
    multiplier_.multiply(tile);
  });
}

template <class In>
void Worker<In>::add_shared(const SharedPart& shared) {
  if (geo_.direct) return;
  if (!writes_sums()) adder_.clear();
  for_each_tile(columns_.begin, columns_.end, row_begin(), row_end(),
                [&](const Tile& tile) { add(tile, shared_products(shared, tile)); });
}

}  // namespace

template <class In>
void add_products(const Operands<In>& operands, const Part& part, char* slice, Held* held) {
  Worker<In>(operands, part, slice, slice, held).add_all();
}

int64_t num_shared_ranges(const Plan& plan, const Geometry& geo, const Part& part) {
  return SharedTiles(plan, geo, part).num_ranges();
}

template <class In>
void multiply_shared(const Operands<In>& operands, const Part& part, const SharedPart& shared, char* slice,
                     Ranges* ranges) {
  Held held;
  Worker<In> worker(operands, part, slice, shared.slice, &held);
  ranges->for_each_item([&](int64_t range) { worker.multiply_range(range, shared); });
}

template <class In>
void add_shared(const Operands<In>& operands, const Part& part, const SharedPart& shared) {
  Held held;
  Worker<In>(operands, part, shared.slice, shared.slice, &held).add_shared(shared);
}

#define INSTANTIATE(In)                                                                               \
  template void add_products(const Operands<In>&, const Part&, char*, Held*);                         \
  template void multiply_shared(const Operands<In>&, const Part&, const SharedPart&, char*, Ranges*); \
  template void add_shared(const Operands<In>&, const Part&, const SharedPart&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels::gemm_col2im
