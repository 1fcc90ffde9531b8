// Implicit GEMM in float with fused multiply-adds; see params/convolution.h. Rows come from packed weights; columns are
// read from src element by element, with any strides.
//
// ROWS_OF_THREADS by COLUMNS_OF_THREADS threads share a tile of PANELS panels by COLUMNS columns; STAGES steps are
// in shared memory at a time. RAGGED: not uniform. SRC_CHANNELS: neighbouring threads read neighbouring channels,
// otherwise neighbouring positions. TOTAL: the kernel that adds up split-K sums.

#include "cuda/device/tile.h"

namespace ortconv {
namespace cuda {

constexpr int kThreadRows = ROWS_OF_THREADS, kThreadColumns = COLUMNS_OF_THREADS;
constexpr int kThreads = kThreadRows * kThreadColumns;
constexpr int kStages = STAGES;
constexpr int kStepDepth = kChunks * 4;                                                           // summands of a step
constexpr int kRowParts = kRows / kThreadRows / 4, kColumnParts = kColumns / kThreadColumns / 4;  // fours of a thread
constexpr int kColumnPitch = kColumns + 4;
constexpr int kStageFloats = float_stage_bytes(kRows, kColumns) / 4;
constexpr int kLoadsM = (PANELS * kBlockBytes / kChunkBytes + kThreads - 1) / kThreads;
constexpr int kSums = kRowParts * kColumnParts * 16;  // of a thread
constexpr int kPipelineBytes = kStages * kStageFloats * 4 > kStagingBytes ? kStages * kStageFloats * 4 : kStagingBytes;

// How many (chunk, column) pairs of a step a thread loads, of how many different chunks and columns.
constexpr int kLoads = kChunks * kColumns / kThreads;
#if SRC_CHANNELS
constexpr int kOwnChunks = 1, kOwnColumns = kLoads;
#else
constexpr int kOwnColumns = kThreads < kColumns ? kColumns / kThreads : 1, kOwnChunks = kLoads / kOwnColumns;
#endif
static_assert(kLoads >= 1 && kOwnChunks >= 1 && kChunks * kColumns % kThreads == 0);

typedef float Sums[kRowParts][4][kColumnParts][4];

struct Loader {
  const Gemm& p;
  const Shift* shifts;
  const unsigned char* rows[kLoadsM];  // of the next step
  int row_phase[kLoadsM];              // -1: no row
  unsigned needed_phases;              // by the step that is loaded
  ChunkCounter at[kOwnChunks];
  long long base[kOwnColumns];
  int x[kOwnColumns][kAxes];
  int thread, chunk, column;  // the first chunk and column of the thread
  float* memory;

  __device__ Loader(const Gemm& params, const Tile& tile, float* shared, int step, int index)
      : p(params), shifts(shifts_of(params, tile.list)), thread(index), memory(shared) {
#if SRC_CHANNELS
    chunk = thread % kChunks;
    column = thread / kChunks;
#else
    chunk = thread / kColumns;
    column = thread % kColumns;
#endif
#pragma unroll
    for (int i = 0; i < kOwnChunks; ++i) at[i].start(p, step * kChunks + chunk + kThreads / kColumns * i);
    const long long panels = static_cast<long long>(tile.group * p.lists + tile.list) * p.panels;
#pragma unroll
    for (int i = 0; i < kLoadsM; ++i) {
      const int part = thread + kThreads * i, panel = tile.m * PANELS + part / (kBlockBytes / kChunkBytes);
      const bool present = part < PANELS * kBlockBytes / kChunkBytes && panel < p.panels;
      row_phase[i] = present ? panel % p.axis[kAxes - 1].phases : -1;
      rows[i] = p.packed + p.weights + ((panels + panel) * p.steps + step) * kBlockBytes +
                part % (kBlockBytes / kChunkBytes) * kChunkBytes;
    }
#pragma unroll
    for (int i = 0; i < kOwnColumns; ++i) {
      const int number = tile.n * kColumns + column + own_column(i);
      const bool present = number < p.positions;
      const Position position = position_of(p, present ? number : 0);
      base[i] = position.image * p.src_n + tile.group * p.src_g;
#pragma unroll
      for (int a = 0; a < kAxes; ++a) {
        const PositionAxis& axis = p.axis[a];
        const int first = axis.src_first + position.at[a] * axis.src_stride;
        x[i][a] = present ? first : -(1 << 30);
        base[i] += first * axis.src_step;
      }
    }
  }

  // Which columns the thread loads beside `column`.
  static __device__ int own_column(int i) { return (SRC_CHANNELS ? kThreads / kChunks : kThreads) * i; }

  __device__ void load(int stage) {
    float* const rows_of_stage = memory + stage * kStageFloats;
    float* const columns = rows_of_stage + kStepDepth * kRows;
#pragma unroll
    for (int i = 0; i < kOwnChunks; ++i) {
      const bool shift_present = at[i].shift < p.shifts;
      const Shift* const shift = shifts + (shift_present ? at[i].shift : 0);
      const bool present = shift_present && shift->phases != 0;
      const int channel = at[i].chunk * 4;
      int delta[kAxes];
      long long offset = channel * p.src_c;
#pragma unroll
      for (int a = 0; a < kAxes; ++a) {
        delta[a] = shift->delta[a];
        offset += delta[a] * p.axis[a].src_step;
      }
#pragma unroll
      for (int j = 0; j < kOwnColumns; ++j) {
        bool inside = present;
#pragma unroll
        for (int a = 0; a < kAxes; ++a) {
          inside = inside && static_cast<unsigned>(x[j][a] + delta[a]) < static_cast<unsigned>(p.axis[a].src_size);
        }
        const Element* const from = reinterpret_cast<const Element*>(p.src) + base[j] + offset;
        float* const to = columns + (chunk + kThreads / kColumns * i) * 4 * kColumnPitch + column + own_column(j);
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          copy_element(to + c * kColumnPitch, from + c * p.src_c, inside && channel + c < p.problem.icg);
        }
      }
#if RAGGED
      if (i == 0) needed_phases = shift_present ? shift->phases : 0;
#endif
      at[i].next_step(p);
    }
#pragma unroll
    for (int i = 0; i < kLoadsM; ++i) {
      const int part = thread + kThreads * i;
      if (part >= PANELS * kBlockBytes / kChunkBytes) continue;
#if RAGGED
      const bool needed = row_phase[i] >= 0 && (needed_phases >> row_phase[i] & 1) != 0;
#else
      const bool needed = row_phase[i] >= 0;
#endif
      // From [panel][depth][row] to [depth][panel][row].
      const int in_block = part % (kBlockBytes / kChunkBytes), panel = part / (kBlockBytes / kChunkBytes);
      float* const to = rows_of_stage + in_block / 4 * kRows + panel * kPanelRows + in_block % 4 * 4;
      copy_async<16>(shared_address(reinterpret_cast<unsigned char*>(to)), rows[i], needed);
      rows[i] += kBlockBytes;
    }
  }

  static __device__ void copy_element(float* to, const Element* from, bool valid) {
#if ELEMENT == 0
    copy_async<4>(shared_address(reinterpret_cast<unsigned char*>(to)), from, valid);
#else
    *to = valid ? to_float(*from) : 0.0f;
#endif
  }
};

// The first row of part `part` of a thread. A warp has rows of different phases in its parts, so that all warps stay
// busy in steps that some phases skip.
__device__ inline int first_row(int part, int thread_row) {
  const int panel = thread_row / 4, swapped = RAGGED && kThreadRows >= 8 && part % 2 == 1 ? panel ^ 1 : panel;
  return part * (kThreadRows * 4) + swapped * kPanelRows + thread_row % 4 * 4;
}

__device__ inline int first_column(int part, int thread_column) {
  return part * (kThreadColumns * 4) + thread_column * 4;
}

// Multiplies one step.
__device__ inline void multiply_step(Sums& sums, const float* rows, const float* columns, int thread_row,
                                     int thread_column, const bool (&active)[kRowParts]) {
#pragma unroll 4
  for (int k = 0; k < kStepDepth; ++k) {
    float b[kColumnParts][4];
#pragma unroll
    for (int j = 0; j < kColumnParts; ++j) load_four(b[j], columns + k * kColumnPitch + first_column(j, thread_column));
#pragma unroll
    for (int i = 0; i < kRowParts; ++i) {
      if (RAGGED && !active[i]) continue;
      float a[4];
      load_four(a, rows + k * kRows + first_row(i, thread_row));
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int j = 0; j < kColumnParts; ++j) {
#pragma unroll
          for (int c = 0; c < 4; ++c) sums[i][r][j][c] = fmaf(a[r], b[j][c], sums[i][r][j][c]);
        }
      }
    }
  }
}

__device__ inline void sum_products(const Gemm& p, const Tile& tile, Sums& sums, int thread) {
  float* const memory = reinterpret_cast<float*>(shared_memory());
  const int thread_row = thread / kThreadColumns, thread_column = thread % kThreadColumns;
  const Steps steps = steps_of(p, tile.split);
  Loader loader(p, tile, memory, steps.begin, thread);
  const int count = steps.end - steps.begin;
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < count) loader.load(i);
    commit_copies();
  }
  ChunkCounter at;
  at.start(p, steps.begin * kChunks);
  int stage = 0;
  for (int i = 0; i < count; ++i) {
    wait_for_copies<kStages - 2>();
    __syncthreads();
    if (i + kStages - 1 < count) loader.load(stage == 0 ? kStages - 1 : stage - 1);
    commit_copies();
    bool active[kRowParts];
#if RAGGED
    const unsigned phases = at.shift < p.shifts ? shifts_of(p, tile.list)[at.shift].phases : 0;
#pragma unroll
    for (int part = 0; part < kRowParts; ++part) {
      const int panel = tile.m * PANELS + first_row(part, thread_row) / kPanelRows;
      active[part] = (phases >> panel % p.axis[kAxes - 1].phases & 1) != 0;
    }
    at.next_step(p);
#endif
    const float* const rows = memory + stage * kStageFloats;
    multiply_step(sums, rows, rows + kStepDepth * kRows, thread_row, thread_column, active);
    stage = stage == kStages - 1 ? 0 : stage + 1;
  }
}

__device__ inline void write_sums(const Gemm& p, const Tile& tile, const Sums& sums, int thread) {
  DstElement* const staging = reinterpret_cast<DstElement*>(shared_memory());
  Tables& tables = *reinterpret_cast<Tables*>(shared_memory() + kPipelineBytes);
  const int thread_row = thread / kThreadColumns, thread_column = thread % kThreadColumns;
  const Epilogue epilogue(p.problem);
  fill_tables(p, tile, tables, thread, kThreads);
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
    __syncthreads();  // the steps, or the pass before, have been read
    const int skew = skew_of(p, tables);
#pragma unroll
    for (int i = 0; i < kRowParts; ++i) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int row = first_row(i, thread_row) + r;
#pragma unroll
        for (int j = 0; j < kColumnParts; ++j) {
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            const int column = first_column(j, thread_column) + c - pass * kPassColumns;
            if (kPasses > 1 && (column < 0 || column >= kPassColumns)) continue;
            stage(staging, skew, row, column,
                  result_of(p, tables, epilogue, row, pass * kPassColumns + column, sums[i][r][j][c]));
          }
        }
      }
    }
    __syncthreads();
    write_dst<kThreads>(p, tables, staging, skew, pass, thread);
  }
}

}  // namespace cuda
}  // namespace ortconv

#define SUMS (&sums[0][0][0][0])
#include "cuda/device/split.h"
