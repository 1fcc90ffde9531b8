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

// What a slice still has of the parts before.
struct Held {
  Listed listed;
  std::array<CopiedTile, kMostCopies> copies{};
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
  static constexpr size_t kCommon = 3, kOfAxis = 7;
  using Key = std::array<int64_t, kCommon + kOfAxis * kMaxAxes>;
  Key key;
  Listed listed;
  std::vector<Segment> segments;
  std::vector<Row> rows;
  std::vector<int64_t> shifts;

  TileLists(const Plan& plan, const Geometry& geometry);
  static Key key_of(const Geometry& geometry);
};

}  // namespace ortconv::kernels::gemm_col2im
