#include "kernels/gemm_col2im/lists.h"

#include <algorithm>

#include "kernels/gemm_col2im/walk.h"

namespace ortconv::kernels::gemm_col2im {
namespace {

void list_segments(const Geometry& geo, const Part& part, const Tile& tile, Segment* segments, Listed* listed) {
  const int v = geo.vector_axis;
  int64_t count = 0;
  for_each_run(geo, v, geo.unit, tile.begin, tile.begin + tile.columns,
               [&](int64_t column, int64_t length, const int64_t* x, int64_t rest) {
                 Segment& s = segments[count++];
                 s.column = column, s.length = length, s.offset = 0;
                 for (int a = 0; a <= v; ++a) {
                   s.at[a] = x[a] + geo.axis[a].x_begin - (a == 0 ? part.j_begin : 0);
                   s.offset = a == 0 ? s.at[a] : s.offset * geo.axis[a].j_count + s.at[a];
                 }
                 s.offset = s.offset * geo.unit + rest;
                 s.at[v] = s.at[v] * geo.unit + rest;
               });
  const auto same = [&](const Segment& s) { return s.length == segments->length && s.at[v] == segments->at[v]; };
  listed->num_segments = count;
  listed->even_length = std::all_of(segments, segments + count, same) ? segments->length : 0;
}

void list_rows(const Plan& plan, const Geometry& geo, const Part& part, const Tile& tile, const ListRoom& room,
               Listed* listed) {
  const int v = geo.vector_axis;
  int64_t low[kMaxAxes], high[kMaxAxes], j_count[kMaxAxes];
  for (int a = 0; a <= v; ++a) {
    const Axis& axis = geo.axis[a];
    low[a] = axis.x_begin, high[a] = axis.x_begin + axis.x_count - 1, j_count[a] = axis.j_count;
  }
  low[0] = geo.axis[0].x_begin + tile.begin / geo.inner_x - part.j_begin;
  high[0] = geo.axis[0].x_begin + (tile.begin + tile.columns - 1) / geo.inner_x - part.j_begin;
  j_count[0] = part.j_count;
  Taps taps(geo, geo.lists_taps_once ? 0 : tile.row_begin % plan.taps);
  const int64_t count = geo.lists_taps_once ? plan.taps : tile.row_end - tile.row_begin;
  listed->any_meets = false, listed->all_meet = true;
  // Of the axes up to one.
  struct Outer {
    int64_t slot, shift;
    Meets meets;
  } outer[kMaxAxes + 1];
  outer[0] = {0, 0, Meets::kAll};
  for (int64_t i = 0, changed = 0; i < count; ++i) {
    Row& row = room.rows[i];
    for (int a = static_cast<int>(changed); a < geo.ndims; ++a) {
      const Axis& axis = geo.axis[a];
      const int64_t q = taps[a].q;
      Outer next = outer[a];
      next.slot = next.slot * axis.slots + taps[a].slot;
      if (taps[a].slot >= axis.slots) next.meets = Meets::kNothing;
      if (a <= v) {
        next.shift = a == 0 ? q : next.shift * axis.j_count + q;
        if (high[a] + q < 0 || low[a] + q >= j_count[a]) {
          next.meets = Meets::kNothing;
        } else if ((low[a] + q < 0 || high[a] + q >= j_count[a]) && next.meets == Meets::kAll) {
          next.meets = Meets::kSome;
        }
      }
      outer[a + 1] = next;
    }
    row.meets = outer[geo.ndims].meets;
    int64_t* shifts = room.shifts + i * (v + 1);
    for (int a = 0; a < v; ++a) shifts[a] = taps[a].q;
    shifts[v] = taps[v].q * geo.unit;
    row.offset = outer[geo.ndims].slot * geo.slot_size + outer[geo.ndims].shift * geo.unit;
    listed->any_meets |= row.meets != Meets::kNothing;
    listed->all_meet &= row.meets != Meets::kNothing;
    changed = taps.advance();
  }
}

}  // namespace

bool list_tile(const Plan& plan, const Geometry& geo, const Part& part, const Tile& tile, const ListRoom& room,
               Listed* listed) {
  const bool same = listed->begin == tile.begin && listed->columns == tile.columns && listed->j_begin == part.j_begin;
  if (same && geo.lists_taps_once) return false;
  if (!same) list_segments(geo, part, tile, room.segments, listed);
  list_rows(plan, geo, part, tile, room, listed);
  listed->begin = tile.begin, listed->columns = tile.columns, listed->j_begin = part.j_begin;
  return true;
}

TileLists::Key TileLists::key_of(const Geometry& geo) {
  Key key{geo.ndims, geo.vector_axis, geo.slot_size, im2col::pitch_of(geo.tile_columns), int64_t{geo.sums_parts}};
  size_t i = kCommon;
  for (int a = 0; a < geo.ndims; ++a) {
    const Axis& axis = geo.axis[a];
    for (const int64_t number :
         {axis.stride, axis.pad, axis.x_begin, axis.x_count, axis.j_count, axis.slots, int64_t{axis.by_tap}}) {
      key[i++] = number;
    }
  }
  return key;
}

TileLists::TileLists(const Plan& plan, const Geometry& geo)
    : key(key_of(geo)),
      segments(static_cast<size_t>(geo.axis[0].x_count * geo.inner_x)),
      rows(static_cast<size_t>(plan.taps)),
      shifts(static_cast<size_t>(plan.taps * (geo.vector_axis + 1))) {
  const Part part = part_of(plan, geo, 0);
  const Columns columns = columns_of(geo, part);
  const Tile tile{columns.begin, columns.end - columns.begin, 0, plan.rows()};
  list_tile(plan, geo, part, tile, {segments.data(), rows.data(), shifts.data()}, &listed);
  if (geo.sums_parts) list_parts(geo, part.j_count);
}

// Tap by tap, so that each vector has its parts in the order of the taps.
void TileLists::list_parts(const Geometry& geo, int64_t j_count) {
  const int v = geo.vector_axis;
  const int64_t row_sums = geo.sums_row(), row_vectors = ceil_div(row_sums, int64_t{kSumLanes});
  const int64_t pitch = im2col::pitch_of(geo.tile_columns);
  std::vector<std::vector<SumPart>> of_vector(static_cast<size_t>(geo.num_vectors()));
  for (size_t tap = 0; tap < rows.size(); ++tap) {
    const int64_t* tap_shifts = shifts.data() + tap * static_cast<size_t>(v + 1);
    for (int64_t i = 0; rows[tap].meets != Meets::kNothing && i < listed.num_segments; ++i) {
      const Segment& s = segments[static_cast<size_t>(i)];
      bool inside = true;
      for (int a = 0; a < v; ++a) {
        const int64_t j = s.at[a] + tap_shifts[a];
        inside &= j >= 0 && j < (a == 0 ? j_count : geo.axis[a].j_count);
      }
      // Of the row of sums.
      const int64_t first = s.at[v] + tap_shifts[v], end = std::min(first + s.length, row_sums);
      for (int64_t at = std::max<int64_t>(0, first), next; inside && at < end; at = next) {
        const int64_t vector = at / kSumLanes, origin = vector * kSumLanes;
        next = std::min(end, origin + kSumLanes);
        const int64_t row = (rows[tap].offset + s.offset - first) / row_sums;
        const int64_t offset = static_cast<int64_t>(tap) * pitch + s.column + origin - first;
        of_vector[static_cast<size_t>(row * row_vectors + vector)].push_back(
            {static_cast<int32_t>(offset), static_cast<uint8_t>(at - origin), static_cast<uint8_t>(next - origin)});
      }
    }
  }
  for (size_t i = 0; i < of_vector.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / row_vectors, vector = static_cast<int64_t>(i) % row_vectors;
    vectors.push_back(
        {static_cast<int32_t>(row * row_sums + vector * kSumLanes), static_cast<int32_t>(of_vector[i].size())});
    parts.insert(parts.end(), of_vector[i].begin(), of_vector[i].end());
  }
}

std::shared_ptr<const TileLists> Plan::lists(const Geometry& geometry) const {
  const std::lock_guard<std::mutex> lock(listing_);
  if (lists_ == nullptr || lists_->key != TileLists::key_of(geometry)) {
    lists_ = std::make_shared<const TileLists>(*this, geometry);
  }
  return lists_;
}

}  // namespace ortconv::kernels::gemm_col2im
