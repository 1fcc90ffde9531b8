// Shared by the GEMM programs: the tile of a block, and the epilogue.
//
// AXES spatial axes; BLOCKS blocks fit on a multiprocessor; a tile has PANELS panels of rows and COLUMNS columns.
// DST_CHANNELS: neighbouring threads write neighbouring channels of dst, otherwise neighbouring positions.
#pragma once

#include "cuda/device/direct.h"
#include "cuda/device/divide.h"
#include "cuda/device/result.h"
#include "cuda/device/values.h"
#include "cuda/params/convolution.h"

namespace ortconv {
namespace cuda {

constexpr int kAxes = AXES;
constexpr int kRows = PANELS * kPanelRows;
constexpr int kColumns = COLUMNS;

// Tiles of the same positions are consecutive, so that they find src in the cache.
struct Tile {
  int m, n, list, group, split;
  int number;  // without the split
};

__device__ inline Tile tile_of(const Gemm& p, unsigned block) {
  Tile tile;
  tile.number = static_cast<int>(block);
  tile.split = divide(&tile.number, p.by_tiles);
  tile.m = tile.number;
  tile.n = divide(&tile.m, p.by_tiles_m);
  tile.list = divide(&tile.n, p.by_tiles_n);
  tile.group = divide(&tile.list, p.by_lists);
  return tile;
}

// The steps of a split along the depth.
struct Steps {
  int begin, end;
};

__device__ inline Steps steps_of(const Gemm& p, int split) {
  return {static_cast<int>(static_cast<long long>(p.steps) * split / p.splits),
          static_cast<int>(static_cast<long long>(p.steps) * (split + 1) / p.splits)};
}

// The image and, per axis, the position of a column.
struct Position {
  int image;
  int at[kAxes];
};

__device__ inline Position position_of(const Gemm& p, int column) {
  Position position;
#pragma unroll
  for (int a = kAxes - 1; a >= 0; --a) {
    position.at[a] = column;
    column = divide(&position.at[a], p.axis[a].by_count);
  }
  position.image = column;
  return position;
}

// Whether the packed weights are unsuitable, see PackedHeader.
__device__ inline bool is_unsuitable(const Gemm& p) {
  return reinterpret_cast<const PackedHeader*>(p.packed)->is_unsuitable != 0;
}

// Chunks are copied from src only where it is aligned to them.
__device__ inline bool is_misaligned(const Gemm& p) {
  return SRC_CHUNKS && reinterpret_cast<unsigned long long>(p.src) % kChunkBytes != 0;
}

__device__ inline const Shift* shifts_of(const Gemm& p, int list) {
  return reinterpret_cast<const Shift*>(p.packed + sizeof(PackedHeader)) + static_cast<long long>(list) * p.shifts;
}

// The shift and the chunk in it of a chunk of the depth, advancing by steps.
struct ChunkCounter {
  int shift, chunk;

  __device__ void start(const Gemm& p, int number) {
    shift = number / p.chunks;
    chunk = number % p.chunks;
  }
  // Advances by p.shifts_of_step shifts and p.chunks_of_step chunks, together kChunks chunks.
  __device__ void next_step(const Gemm& p) {
    shift += p.shifts_of_step;
    chunk += p.chunks_of_step;
    if (chunk >= p.chunks) {
      chunk -= p.chunks;
      ++shift;
    }
  }
};

// The epilogue stages results in shared memory, as the lines that params/convolution.h describes.
constexpr int kTogether = TOGETHER;
constexpr int kPasses = passes_of(sizeof(DstElement), kRows, kColumns);
constexpr int kPassColumns = kColumns / kPasses;
constexpr int kPitch = pitch_of_lines(sizeof(DstElement), kRows, kColumns, kTogether, DST_CHANNELS);
constexpr int kStagingBytes = staging_bytes(sizeof(DstElement), kRows, kColumns, kTogether, DST_CHANNELS);
constexpr int kChannelsOfTile = kRows / kTogether;
constexpr int kLines = DST_CHANNELS ? kPassColumns : kChannelsOfTile;
constexpr int kLineElements = DST_CHANNELS ? kRows : kPassColumns * kTogether;

// The row of phase r of the tile's channel `index`, and back.
__device__ inline int row_of(int index, int r) {
  return RAGGED ? (index / kPanelRows * kTogether + r) * kPanelRows + index % kPanelRows : index * kTogether + r;
}
__device__ inline int channel_of(int row) {
  return RAGGED ? row / (kPanelRows * kTogether) * kPanelRows + row % kPanelRows : row / kTogether;
}
__device__ inline int phase_of(int row) { return (RAGGED ? row / kPanelRows : row) % kTogether; }

// The row, and the column in the pass, of element `i` of a line.
__device__ inline int row_of_element(int line, int i) {
  return DST_CHANNELS ? row_of(i % kChannelsOfTile, i / kChannelsOfTile) : row_of(line, i % kTogether);
}
__device__ inline int column_of_element(int line, int i) { return DST_CHANNELS ? line : i / kTogether; }

struct Tables {
  long long column_offset[kColumns];
  long long row_offset[kRows];  // -1: no row
#if QUANTIZED
  long long column_in_image[kColumns];  // as column_offset, from the begin of the image
#endif
  int column_at[kAxes][kColumns];
  int row_phase[kAxes][kRows];
  int column_inside[kColumns];  // all phases of the position are in dst
  Channel row_channel[kRows];
#if ELEMENT == 3
  unsigned row_excess[kRows];  // the contribution of the zero point of X to the sum
#endif
};
static_assert(sizeof(Tables) == tables_bytes(kAxes, kRows, kColumns, ELEMENT == 3, sizeof(DstElement) == 1),
              "the host must know");

__device__ inline void fill_tables(const Gemm& p, const Tile& tile, Tables& tables, int thread, int threads) {
  for (int c = thread; c < kColumns; c += threads) {
    const int column = tile.n * kColumns + c;
    const bool present = column < p.positions;
    const Position position = position_of(p, present ? column : 0);
    long long offset = 0;
    bool inside = present;
#pragma unroll
    for (int a = 0; a < kAxes; ++a) {
      const PositionAxis& axis = p.axis[a];
      const int at = axis.dst_first + position.at[a] * axis.dst_stride;
      tables.column_at[a][c] = present ? at : -(1 << 30);
      inside = inside && at >= 0 && at + axis.phases <= p.problem.axis[a].dst_size;
      offset += at * p.problem.axis[a].dst_step;
    }
    tables.column_offset[c] = position.image * p.problem.dst_n + offset;
#if QUANTIZED
    tables.column_in_image[c] = offset;
#endif
    tables.column_inside[c] = inside;
  }
  const int last = kAxes - 1, ocg = static_cast<int>(p.problem.ocg);
  for (int r = thread; r < kRows; r += threads) {
    int row = tile.m * kRows + r, oc, outer = tile.list, phase[kAxes];
    if (RAGGED) {
      phase[last] = row / kPanelRows;
      oc = divide(&phase[last], p.axis[last].by_phases) * kPanelRows + row % kPanelRows;
    } else {
      phase[last] = row;
      oc = divide(&phase[last], p.axis[last].by_phases);
      outer = divide(&oc, p.by_channels);
    }
    long long offset = phase[last] * p.problem.axis[last].dst_step;
#pragma unroll
    for (int a = last - 1; a >= 0; --a) {
      phase[a] = outer;
      outer = divide(&phase[a], p.axis[a].by_phases);
      offset += phase[a] * p.problem.axis[a].dst_step;
    }
    const bool present = outer == 0 && oc < ocg;
    const long long channel = static_cast<long long>(tile.group) * ocg + oc;
#pragma unroll
    for (int a = 0; a < kAxes; ++a) tables.row_phase[a][r] = phase[a];
    tables.row_offset[r] = present ? offset + channel * p.problem.dst_c : -1;
    tables.row_channel[r] = channel_of(p.problem, present ? channel : 0);
#if ELEMENT == 3
    const Values values(p.problem, present ? channel : 0);
    const long long panels = static_cast<long long>(tile.group * p.lists + tile.list) * p.panels;
    const unsigned* const row_sums = reinterpret_cast<const unsigned*>(p.packed + p.row_sums) + panels * kPanelRows;
    tables.row_excess[r] = present ? row_sums[tile.m * kRows + r] * static_cast<unsigned>(values.x_zero) : 0;
#endif
  }
}

__device__ inline bool reaches(const Gemm& p, const Tables& tables, int row, int column) {
  bool inside = true;
#pragma unroll
  for (int a = 0; a < kAxes; ++a) {
    const int at = tables.column_at[a][column] + tables.row_phase[a][row];
    inside = inside && at >= 0 && at < p.problem.axis[a].dst_size;
  }
  return inside;
}

// Whether a result lies in dst.
__device__ inline bool is_in_dst(const Gemm& p, const Tables& tables, int row, int column) {
  return tables.row_offset[row] >= 0 && (tables.column_inside[column] != 0 || reaches(p, tables, row, column));
}

// The element of dst for a sum, which does not matter where it lies outside.
__device__ inline DstElement result_of(const Gemm& p, const Tables& tables, const Epilogue& epilogue, int row,
                                       int column, Sum sum) {
#if ELEMENT == 3
  Place place = {};
#if QUANTIZED
  if (Epilogue::needs_place(p.problem)) {
    if (!is_in_dst(p, tables, row, column)) return DstElement();
    place.at = tables.row_offset[row] + tables.column_offset[column];
    place.in_image = tables.row_offset[row] + tables.column_in_image[column];
  }
#endif
  return epilogue.result(p.problem, tables.row_channel[row], sum - tables.row_excess[row], place);
#else
  return epilogue.result(p.problem, tables.row_channel[row], sum + tables.row_channel[row].bias, Place());
#endif
}

// Copies two adjacent elements at once.
__device__ inline void copy_pair(DstElement* to, const DstElement* from) {
#if QUANTIZED
  typedef unsigned short Pair;
#elif ELEMENT == 0 || ELEMENT == 3
  typedef unsigned long long Pair;
#else
  typedef unsigned Pair;
#endif
  *reinterpret_cast<Pair*>(to) = *reinterpret_cast<const Pair*>(from);
}

// 1 where aligned pairs start at the second element of a line.
__device__ inline int skew_of(const Gemm& p, const Tables& tables) {
  const unsigned long long dst = reinterpret_cast<unsigned long long>(p.problem.dst) / sizeof(DstElement);
  return DST_CHANNELS ? 0 : static_cast<int>(dst + tables.column_offset[0]) & 1;
}

__device__ inline void stage(DstElement* staging, int skew, int row, int column, DstElement value) {
  if (DST_CHANNELS) {
    staging[column * kPitch + phase_of(row) * kChannelsOfTile + channel_of(row)] = value;
  } else {
    staging[channel_of(row) * kPitch + column * kTogether + phase_of(row) + skew] = value;
  }
}

// Writes one element if it lies in dst.
__device__ inline void write_element(const Gemm& p, const Tables& tables, const DstElement* from, int row, int column) {
  if (!is_in_dst(p, tables, row, column)) return;
  static_cast<DstElement*>(p.problem.dst)[tables.row_offset[row] + tables.column_offset[column]] = *from;
}

// Writes the columns of a pass. A warp writes a line, a lane pairs of elements.
template <int kThreads>
__device__ inline void write_dst(const Gemm& p, const Tables& tables, const DstElement* staging, int skew, int pass,
                                 int thread) {
  constexpr int kWarps = kThreads / 32, kPairs = (kLineElements / 2 + 1 + 31) / 32;
  DstElement* const dst = static_cast<DstElement*>(p.problem.dst);
  const int warp = thread / 32, lane = thread % 32, first = pass * kPassColumns;
  const long long last_step = p.problem.axis[kAxes - 1].dst_step;

  // The same for all lines: whether the elements of a pair are adjacent in dst, and their offset.
  long long offset[kPairs] = {};
  bool neighbours[kPairs];
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const int e = 2 * (lane + 32 * i) - skew;
    neighbours[i] = e >= 0 && e + 1 < kLineElements;
    if (!neighbours[i]) continue;
    long long ends[2];
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const int row = row_of_element(0, e + side), column = first + column_of_element(0, e + side);
      if (DST_CHANNELS) {
        ends[side] = tables.row_offset[row];
        neighbours[i] = neighbours[i] && ends[side] >= 0;
      } else {
        ends[side] = tables.column_offset[column] + (e + side) % kTogether * last_step;
        neighbours[i] = neighbours[i] && tables.column_inside[column] != 0;
      }
    }
    neighbours[i] = neighbours[i] && ends[1] == ends[0] + 1;
    offset[i] = ends[0];
  }
#pragma unroll 2
  for (int line = warp; line < kLines; line += kWarps) {
    const int row = row_of_element(line, 0), column = first + column_of_element(line, 0);
    const long long base = DST_CHANNELS ? tables.column_offset[column] : tables.row_offset[row];
    const bool whole = DST_CHANNELS ? tables.column_inside[column] != 0 : base >= 0;
    unsigned left = 0;  // pairs whose elements are written one by one
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      DstElement* const to = dst + base + offset[i];
      if (whole && neighbours[i] && reinterpret_cast<unsigned long long>(to) % (2 * sizeof(DstElement)) == 0) {
        copy_pair(to, staging + line * kPitch + 2 * (lane + 32 * i));
      } else {
        left |= 1u << i;
      }
    }
    for (int i = 0; left != 0; ++i, left >>= 1) {
      for (int side = 0; side < 2 && (left & 1) != 0; ++side) {
        const int e = 2 * (lane + 32 * i) - skew + side;
        if (e < 0 || e >= kLineElements) continue;
        write_element(p, tables, staging + line * kPitch + e + skew, row_of_element(line, e),
                      first + column_of_element(line, e));
      }
    }
  }
}

}  // namespace cuda
}  // namespace ortconv
