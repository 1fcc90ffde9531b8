// Where the products of a tile go: the segments of its positions, and its taps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/gemm_col2im/geometry.h"
#include "kernels/gemm_col2im/item.h"
#include "kernels/gemm_col2im/tiles.h"
#include "kernels/sum_parts/sum_parts.h"

namespace ortconv::kernels::gemm_col2im {

// The tile whose segments and taps a slice lists; parts of the next group or image often have the same.
struct Listed {
  int64_t begin = -1, columns, j_begin;
  int64_t num_segments;
  int64_t even_length;       // of all segments; zero where they differ or begin at different positions
  bool any_meets, all_meet;  // something
};

// A tile of src that was copied: image, group, first position, positions, first channel, channels. None has only zeros.
using CopiedTile = std::array<int64_t, 6>;
using Copies = std::array<CopiedTile, kMostCopies>;

// What a slice still has of the parts before.
struct Held {
  Listed listed;
  Copies copies{};
};

// shifts: of each row, on each axis up to the vector axis.
struct ListRoom {
  Segment* segments;
  Row* rows;
  int64_t* shifts;
};

// Lists what a tile has that `listed` does not say was listed last, for all taps if there are few, else for those of
// the tile's rows. Returns whether anything was listed.
bool list_tile(const Plan& plan, const Geometry& geometry, const Part& part, const Tile& tile, const ListRoom& room,
               Listed* listed);

// What is listed of the only tile that every part has.
struct TileLists {
  // All that it depends on. What a plan has for every problem is left out.
  static constexpr size_t kCommon = 5, kOfAxis = 7;
  using Key = std::array<int64_t, kCommon + kOfAxis * kMaxAxes>;
  Key key;
  Listed listed;
  std::vector<Segment> segments;
  std::vector<Row> rows;
  std::vector<int64_t> shifts;
  // Of a channel: its vectors of sums, row by row, and the parts of rows of products that add up to these.
  std::vector<SumVector> vectors;
  std::vector<SumPart> parts;

  TileLists(const Plan& plan, const Geometry& geometry);
  static Key key_of(const Geometry& geometry);

 private:
  void list_parts(const Geometry& geometry, int64_t j_count);
};

// The lists of the tiles of a part, one tile after the other: those of the plan, if it has any, or of a slice.
class PartLists {
 public:
  PartLists(const Plan& plan, const Geometry& geometry, const Part& part, const TileLists* of_plan,
            const ListRoom& room, Listed* of_slice)
      : plan_(plan), geo_(geometry), part_(part), of_plan_(of_plan), room_(room), listed_(*of_slice) {
    use(room_);
    if (of_plan != nullptr) {
      segments_ = of_plan->segments.data(), rows_ = of_plan->rows.data(), shifts_ = of_plan->shifts.data();
      listed_ = of_plan->listed;
    }
  }

  // Lists what the tile needs that is not listed yet. False where no row of it meets anything.
  bool list(const Tile& tile) {
    if (geo_.direct) return true;
    if (list_tile(plan_, geo_, part_, tile, room_, &listed_)) use(room_);
    return listed_.any_meets;
  }

  // Of the plan; null where the tiles of a part differ.
  const TileLists* of_plan() const { return of_plan_; }
  const Segment* begin() const { return segments_; }
  const Segment* end() const { return segments_ + listed_.num_segments; }
  int64_t even_length() const { return listed_.even_length; }
  // Of a row, on each axis up to the vector axis.
  const int64_t* shifts_of(const Row& row) const { return shifts_ + (&row - rows_) * (geo_.vector_axis + 1); }

  // Calls fn(row, sums) for the taps of the rows [begin, end) of a tile, and where the sums of their channel begin.
  template <class Fn>
  void for_each_row(const Tile& tile, int64_t begin, int64_t end, Fn fn) const {
    int64_t tap = begin % plan_.taps, sums = (begin / plan_.taps - part_.channel) * geo_.channel_size;
    const Row* row = rows_ + (geo_.lists_taps_once ? tap : begin - tile.row_begin);
    for (int64_t i = begin; i < end; ++i, ++row) {
      fn(*row, sums);
      if (++tap < plan_.taps) continue;
      tap = 0, sums += geo_.channel_size;
      if (geo_.lists_taps_once) row -= plan_.taps;
    }
  }

  // Whether no product of the rows [begin, end) of a tile goes anywhere.
  bool meets_nothing(const Tile& tile, int64_t begin, int64_t end) const {
    if (geo_.direct || listed_.all_meet) return false;
    bool any = false;
    for_each_row(tile, begin, end, [&](const Row& row, int64_t) { any |= row.meets != Meets::kNothing; });
    return !any;
  }

 private:
  void use(const ListRoom& room) { segments_ = room.segments, rows_ = room.rows, shifts_ = room.shifts; }

  const Plan& plan_;
  const Geometry& geo_;
  const Part& part_;
  const TileLists* const of_plan_;
  const ListRoom room_;
  Listed& listed_;
  const Segment* segments_;
  const Row* rows_;
  const int64_t* shifts_;
};

}  // namespace ortconv::kernels::gemm_col2im
