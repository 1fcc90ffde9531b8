// Convolution by the tensor cores; params.h says how it becomes products. Rows come from packed weights, columns are
// read where src keeps the channels of a position together in whole chunks (SRC_CHUNKS is 1).
//
// WARPS_M * WARPS_N warps share a tile of GRANULES granules by COLUMNS columns; STAGES steps are in shared memory at a
// time. RAGGED: rows differ in the shifts at which they have taps. TF32: elements are floats. TOTAL: not the products
// but the kernel that adds up what the splits of the sum have left.

#define SRC_CHUNKS 1
#include "cuda/tile.h"

namespace ortconv {
namespace cuda {

constexpr int kWarpsM = WARPS_M, kWarpsN = WARPS_N, kThreads = 32 * WARPS_M * WARPS_N;
constexpr int kWarpGranules = GRANULES / kWarpsM, kWarpColumns = kColumns / kWarpsN;
constexpr int kStages = STAGES;
constexpr int kStepBytes = kChunks * kChunkBytes;
constexpr int kRowBytes = GRANULES * kBlockBytes;  // of a step
constexpr int kStageBytes = tensor_stage_bytes(kRows, kColumns);
constexpr int kLoadsM = (GRANULES * kGranule * kChunks + kThreads - 1) / kThreads;
constexpr int kLoadsN = kColumns * kChunks / kThreads;
constexpr int kSums = kWarpGranules * kWarpColumns / 8 * 4;  // of a thread
constexpr int kPipelineBytes = kStages * kStageBytes > kStagingBytes ? kStages * kStageBytes : kStagingBytes;

typedef float Sums[kWarpGranules][kWarpColumns / 8][4];

__device__ inline void multiply(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if TF32
  mma_tf32(sums, a, b);
#elif ELEMENT == 1
  mma_f16(sums, a, b);
#else
  mma_bf16(sums, a, b);
#endif
}

// Chunk `chunk` of row or column `index` of a step.
__device__ inline int place(int index, int chunk) {
  return index * kStepBytes + (chunk ^ (index >> 1 & 3)) * kChunkBytes;
}

// Copies the steps of a tile to shared memory, in turn.
struct Loader {
  const Gemm& p;
  const Shift* shifts;
  const unsigned char* rows[kLoadsM];  // of the next step
  int row_phase[kLoadsM];              // -1: no row
  ChunkCounter at;
  int base[kLoadsN];
  int x[kLoadsN][kAxes];
  SharedAddress to_row, to_column;

  __device__ Loader(const Gemm& params, const Tile& tile, SharedAddress memory, int step, int thread)
      : p(params), shifts(shifts_of(params, tile.list)) {
    at.start(p, step * kChunks + thread % kChunks);
    const long long granules = static_cast<long long>(tile.group * p.lists + tile.list) * p.granules;
#pragma unroll
    for (int i = 0; i < kLoadsM; ++i) {
      const int chunk = thread + kThreads * i, granule = tile.m * GRANULES + chunk / (kGranule * kChunks);
      const bool present = chunk < GRANULES * kGranule * kChunks && granule < p.granules;
      row_phase[i] = present ? granule % p.axis[kAxes - 1].phases : -1;
      rows[i] = p.packed + p.weights + ((granules + granule) * p.steps + step) * kBlockBytes +
                chunk % (kGranule * kChunks) * kChunkBytes;
    }
    to_row = memory + thread * kChunkBytes;
    const int first = thread / kChunks;
    to_column = memory + kRowBytes + place(first, thread % kChunks);
#pragma unroll
    for (int i = 0; i < kLoadsN; ++i) {
      const int column = tile.n * kColumns + first + kThreads / kChunks * i;
      const bool present = column < p.positions;
      const Position position = position_of(p, present ? column : 0);
      base[i] = position.image * static_cast<int>(p.src_n) + tile.group * static_cast<int>(p.src_g);
#pragma unroll
      for (int a = 0; a < kAxes; ++a) {
        const PositionAxis& axis = p.axis[a];
        x[i][a] = present ? axis.src_first + position.at[a] * axis.src_stride : -(1 << 30);
        base[i] += (axis.src_first + position.at[a] * axis.src_stride) * static_cast<int>(axis.src_step);
      }
    }
  }

  __device__ void load(int stage) {
    const int place_of_stage = stage * kStageBytes;
    bool present = at.shift < p.shifts && at.chunk < p.src_chunks;
    const Shift* const shift = shifts + (at.shift < p.shifts ? at.shift : 0);
#if RAGGED
    present = present && shift->phases != 0;
#endif
    int delta[kAxes], offset = at.chunk;
#pragma unroll
    for (int a = 0; a < kAxes; ++a) {
      delta[a] = shift->delta[a];
      offset += delta[a] * static_cast<int>(p.axis[a].src_step);
    }
#pragma unroll
    for (int i = 0; i < kLoadsN; ++i) {
      bool inside = present;
#pragma unroll
      for (int a = 0; a < kAxes; ++a) {
        inside = inside && static_cast<unsigned>(x[i][a] + delta[a]) < static_cast<unsigned>(p.axis[a].src_size);
      }
      copy_async<16>(to_column + place_of_stage + i * (kThreads / kChunks * kStepBytes),
                     p.src + static_cast<long long>(base[i] + offset) * kChunkBytes, inside);
    }
#pragma unroll
    for (int i = 0; i < kLoadsM; ++i) {
      if (kLoadsM * kThreads > GRANULES * kGranule * kChunks && row_phase[i] < 0) continue;
#if RAGGED
      const bool needed = row_phase[i] >= 0 && at.shift < p.shifts && (shift->phases >> row_phase[i] & 1) != 0;
#else
      const bool needed = row_phase[i] >= 0;
#endif
      copy_async<16>(to_row + place_of_stage + i * (kThreads * kChunkBytes), rows[i], needed);
      rows[i] += kBlockBytes;
    }
    at.next_step(p);
  }
};

// Adds the products of one step.
__device__ inline void multiply_step(Sums& sums, SharedAddress rows, SharedAddress columns, int lane,
                                     const bool (&active)[kWarpGranules]) {
  // Which row of the four matrices that make a fragment the lane points at.
  const int matrix = lane / 8, line = lane % 8;
  const int row = matrix % 2 * 8 + line, row_chunk = matrix / 2;
  const int column = matrix / 2 * 8 + line, column_chunk = matrix % 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    unsigned b[kWarpColumns / 8][2];
#pragma unroll
    for (int j = 0; j < kWarpColumns / 16; ++j) {
      unsigned four[4];
      load_matrix(four, columns + j * (16 * kStepBytes) + place(column, half * 2 + column_chunk));
#if TF32
#pragma unroll
      for (int i = 0; i < 4; ++i) four[i] = tf32_of_float(__uint_as_float(four[i]));
#endif
      b[j * 2][0] = four[0], b[j * 2][1] = four[1];
      b[j * 2 + 1][0] = four[2], b[j * 2 + 1][1] = four[3];
    }
#pragma unroll
    for (int i = 0; i < kWarpGranules; ++i) {
      if (RAGGED && !active[i]) continue;
      unsigned a[4];
      load_matrix(a, rows + i * kBlockBytes + place(row, half * 2 + row_chunk));
#pragma unroll
      for (int j = 0; j < kWarpColumns / 8; ++j) multiply(sums[i][j], a, b[j]);
    }
  }
}

__device__ inline void sum_products(const Gemm& p, const Tile& tile, Sums& sums, int thread) {
  const SharedAddress memory = shared_address(shared_memory());
  const int warp = thread / 32, lane = thread % 32;
  const Steps steps = steps_of(p, tile.split);
  Loader loader(p, tile, memory, steps.begin, thread);
  const int count = steps.end - steps.begin;
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < count) loader.load(i);
    commit_copies();
  }
  const int first_granule = warp / kWarpsN * kWarpGranules;
  const SharedAddress rows = memory + first_granule * kBlockBytes;
  const SharedAddress columns = memory + kRowBytes + warp % kWarpsN * (kWarpColumns * kStepBytes);
  ChunkCounter at;
  at.start(p, steps.begin * kChunks);
  int stage = 0;
  for (int i = 0; i < count; ++i) {
    wait_for_copies<kStages - 2>();
    __syncthreads();
    if (i + kStages - 1 < count) loader.load(stage == 0 ? kStages - 1 : stage - 1);
    commit_copies();
    bool active[kWarpGranules];
#if RAGGED
    const unsigned phases = at.shift < p.shifts ? shifts_of(p, tile.list)[at.shift].phases : 0;
#pragma unroll
    for (int g = 0; g < kWarpGranules; ++g) {
      active[g] = (phases >> (tile.m * GRANULES + first_granule + g) % p.axis[kAxes - 1].phases & 1) != 0;
    }
    at.next_step(p);
#endif
    multiply_step(sums, rows + stage * kStageBytes, columns + stage * kStageBytes, lane, active);
    stage = stage == kStages - 1 ? 0 : stage + 1;
  }
}

__device__ inline void write_sums(const Gemm& p, const Tile& tile, const Sums& sums, int thread) {
  Element* const staging = reinterpret_cast<Element*>(shared_memory());
  Tables& tables = *reinterpret_cast<Tables*>(shared_memory() + kPipelineBytes);
  const int warp = thread / 32, lane = thread % 32;
  fill_tables(p, tile, tables, thread, kThreads);
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
    __syncthreads();  // the steps, or the pass before, have been read
#pragma unroll
    for (int i = 0; i < kWarpGranules; ++i) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const int row = (warp / kWarpsN * kWarpGranules + i) * kGranule + part * 8 + lane / 4;
        const float bias = tables.row_bias[row];
#pragma unroll
        for (int j = 0; j < kWarpColumns / 8; ++j) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int column = warp % kWarpsN * kWarpColumns + j * 8 + lane % 4 * 2 + e - pass * kPassColumns;
            if (kPasses > 1 && (column < 0 || column >= kPassColumns)) continue;
            stage(staging, row, column,
                  finish(sums[i][j][part * 2 + e] + bias, p.problem.slope, p.problem.minimum, p.problem.maximum));
          }
        }
      }
    }
    __syncthreads();
    write_dst<kThreads>(p, tables, staging, pass, thread);
  }
}

}  // namespace cuda
}  // namespace ortconv

#define SUMS (&sums[0][0][0])
#include "cuda/split.h"
