// What the products of all element types share: which tile a block computes, and how a tile of sums becomes dst.
//
// AXES spatial axes; BLOCKS blocks shall fit on a multiprocessor; a tile has GRANULES granules of rows and COLUMNS
// columns. DST_CHANNELS: neighbouring threads write neighbouring channels of dst, otherwise neighbouring positions.
#pragma once

#include "cuda/device.h"
#include "cuda/direct.h"
#include "cuda/params.h"

namespace ortconv {
namespace cuda {

constexpr int kAxes = AXES;
constexpr int kRows = GRANULES * kGranule;
constexpr int kColumns = COLUMNS;

// Tiles of the same positions follow each other, so that what they read of src is still in the cache.
struct Tile {
  int m, n, list, group, split;
  long long number;  // without the split
};

__device__ inline Tile tile_of(const Gemm& p, unsigned block) {
  Tile tile;
  const unsigned tiles = static_cast<unsigned>(p.tiles_m) * p.tiles_n * p.lists * p.groups;
  tile.split = static_cast<int>(block / tiles);
  block -= tile.split * tiles;
  tile.number = block;
  tile.m = static_cast<int>(block % p.tiles_m);
  block /= p.tiles_m;
  tile.n = static_cast<int>(block % p.tiles_n);
  block /= p.tiles_n;
  tile.list = static_cast<int>(block % p.lists);
  tile.group = static_cast<int>(block / p.lists);
  return tile;
}

// The steps of a split.
struct Steps {
  int begin, end;
};

__device__ inline Steps steps_of(const Gemm& p, int split) {
  return {static_cast<int>(static_cast<long long>(p.steps) * split / p.splits),
          static_cast<int>(static_cast<long long>(p.steps) * (split + 1) / p.splits)};
}

// The image and, per axis, the position that a column is.
struct Position {
  int image;
  int at[kAxes];
};

__device__ inline Position position_of(const Gemm& p, int column) {
  Position position;
#pragma unroll
  for (int a = kAxes - 1; a >= 0; --a) {
    const int count = p.axis[a].count;
    position.at[a] = column % count;
    column /= count;
  }
  position.image = column;
  return position;
}

// Products are not the convolution where an infinity meets the zeros around src; then every block computes outputs from
// the definition. Nor can a tensor be copied by chunks (SRC_CHUNKS) that begins between two of them.
__device__ inline bool must_convolve(const Gemm& p) {
  const bool misaligned = reinterpret_cast<unsigned long long>(p.src) % kChunkBytes != 0;
  return (SRC_CHUNKS && misaligned) || reinterpret_cast<const PackedHeader*>(p.packed)->has_infinities != 0;
}

__device__ inline const Shift* shifts_of(const Gemm& p, int list) {
  return reinterpret_cast<const Shift*>(p.packed + sizeof(PackedHeader)) + static_cast<long long>(list) * p.shifts;
}

// Where a chunk of the sum is: counts chunks by fours, as steps go.
struct ChunkCounter {
  int shift, chunk;

  __device__ void start(const Gemm& p, int number) {
    shift = number / p.chunks;
    chunk = number % p.chunks;
  }
  // Goes on by p.shifts_of_step shifts and p.chunks_of_step chunks, together kChunks chunks.
  __device__ void next_step(const Gemm& p) {
    shift += p.shifts_of_step;
    chunk += p.chunks_of_step;
    if (chunk >= p.chunks) {
      chunk -= p.chunks;
      ++shift;
    }
  }
};

// dst from a tile of sums, by way of shared memory.
constexpr int kPasses = passes_of(sizeof(Element), kRows, kColumns);
constexpr int kPassColumns = kColumns / kPasses;
constexpr int kPitch = staging_pitch(sizeof(Element), kRows, kColumns, DST_CHANNELS);
constexpr int kStagingBytes = staging_bytes(sizeof(Element), kRows, kColumns, DST_CHANNELS);

struct Tables {
  long long column_offset[kColumns];
  long long row_offset[kRows];  // -1: no row
  int column_at[kAxes][kColumns];
  int row_phase[kAxes][kRows];
  int column_inside[kColumns];  // no phase of the position is beyond dst
  float row_bias[kRows];
};
static_assert(sizeof(Tables) == tables_bytes(kAxes, kRows, kColumns), "the host must know");

__device__ inline void fill_tables(const Gemm& p, const Tile& tile, Tables& tables, int thread, int threads) {
  for (int c = thread; c < kColumns; c += threads) {
    const int column = tile.n * kColumns + c;
    const bool present = column < p.positions;
    const Position position = position_of(p, present ? column : 0);
    long long offset = position.image * p.problem.dst_n;
    bool inside = present;
#pragma unroll
    for (int a = 0; a < kAxes; ++a) {
      const PositionAxis& axis = p.axis[a];
      const int at = axis.dst_first + position.at[a] * axis.dst_stride;
      tables.column_at[a][c] = present ? at : -(1 << 30);
      inside = inside && at >= 0 && at + axis.phases <= p.problem.axis[a].dst_size;
      offset += at * p.problem.axis[a].dst_step;
    }
    tables.column_offset[c] = offset;
    tables.column_inside[c] = inside;
  }
  const int last = kAxes - 1, ocg = static_cast<int>(p.problem.ocg);
  for (int r = thread; r < kRows; r += threads) {
    int row = tile.m * kRows + r, oc, outer = tile.list, phase[kAxes];
    const int last_phases = p.axis[last].phases;
    if (p.uniform != 0) {
      phase[last] = row % last_phases;
      row /= last_phases;
      oc = row % ocg;
      outer = row / ocg;
    } else {
      const int granule = row / kGranule;
      phase[last] = granule % last_phases;
      oc = granule / last_phases * kGranule + row % kGranule;
    }
    long long offset = phase[last] * p.problem.axis[last].dst_step;
#pragma unroll
    for (int a = last - 1; a >= 0; --a) {
      phase[a] = outer % p.axis[a].phases;
      outer /= p.axis[a].phases;
      offset += phase[a] * p.problem.axis[a].dst_step;
    }
    const bool present = outer == 0 && oc < ocg;
    const long long channel = static_cast<long long>(tile.group) * ocg + oc;
#pragma unroll
    for (int a = 0; a < kAxes; ++a) tables.row_phase[a][r] = phase[a];
    tables.row_offset[r] = present ? offset + channel * p.problem.dst_c : -1;
    const Element* const bias = static_cast<const Element*>(p.problem.bias);
    tables.row_bias[r] = present && bias != nullptr ? to_float(bias[channel]) : 0.0f;
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

__device__ inline void stage(Element* staging, int row, int column, Element value) {
  staging[DST_CHANNELS ? column * kPitch + row : row * kPitch + column] = value;
}

// Writes the columns of a pass.
template <int kThreads>
__device__ inline void write_dst(const Gemm& p, const Tables& tables, const Element* staging, int pass, int thread) {
  constexpr int kWarps = kThreads / 32;
  Element* const dst = static_cast<Element*>(p.problem.dst);
  const int warp = thread / 32, lane = thread % 32, first = pass * kPassColumns;
#if DST_CHANNELS
  constexpr int kOwn = (kRows + 31) / 32;
  long long offset[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) offset[i] = lane + 32 * i < kRows ? tables.row_offset[lane + 32 * i] : -1;
#pragma unroll 4
  for (int c = warp; c < kPassColumns; c += kWarps) {
    const long long base = tables.column_offset[first + c];
    const bool inside = tables.column_inside[first + c] != 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int row = lane + 32 * i;
      if (offset[i] >= 0 && (inside || reaches(p, tables, row, first + c))) {
        dst[base + offset[i]] = staging[c * kPitch + row];
      }
    }
  }
#else
  constexpr int kOwn = kPassColumns / 32;
  long long offset[kOwn];
  bool inside[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    offset[i] = tables.column_offset[first + lane + 32 * i];
    inside[i] = tables.column_inside[first + lane + 32 * i] != 0;
  }
#pragma unroll 4
  for (int row = warp; row < kRows; row += kWarps) {
    const long long base = tables.row_offset[row];
    if (base < 0) continue;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int c = lane + 32 * i;
      if (inside[i] || reaches(p, tables, row, first + c)) dst[base + offset[i]] = staging[row * kPitch + c];
    }
  }
#endif
}

}  // namespace cuda
}  // namespace ortconv
