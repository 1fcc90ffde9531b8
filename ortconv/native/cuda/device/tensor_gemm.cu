// Implicit GEMM on tensor cores; see params/convolution.h. Rows come from packed weights. Columns are copied in chunks
// from a channels-last src (SRC_CHUNKS), otherwise element by element, through registers unless they are floats.
// WHOLE_STEPS: element by element, no chunk is short, and the chunks of a step have the same shift.
//
// WARPS_M * WARPS_N warps share a tile of PANELS panels by COLUMNS columns; STAGES steps are in shared memory at a
// time. RAGGED: not uniform. TF32: elements are floats, multiplied in TF32. TOTAL: the kernel that adds up split-K
// sums.

#include "cuda/device/tile.h"
#include "cuda/device/words.h"

namespace ortconv {
namespace cuda {

constexpr int kWarpsM = WARPS_M, kWarpsN = WARPS_N, kThreads = 32 * WARPS_M * WARPS_N;
constexpr int kWarpPanels = PANELS / kWarpsM, kWarpColumns = kColumns / kWarpsN;
constexpr int kStages = STAGES;
constexpr int kStepBytes = kChunks * kChunkBytes;
constexpr int kRowBytes = PANELS * kBlockBytes;  // of a step
constexpr int kStageBytes = tensor_stage_bytes(kRows, kColumns);
constexpr int kLoadsM = (PANELS * kPanelRows * kChunks + kThreads - 1) / kThreads;
constexpr int kSums = kWarpPanels * kWarpColumns / 8 * 4;  // of a thread
constexpr int kPipelineBytes = kStages * kStageBytes > kStagingBytes ? kStages * kStageBytes : kStagingBytes;

typedef Sum Sums[kWarpPanels][kWarpColumns / 8][4];

__device__ inline void multiply(Sum (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if ELEMENT == 3
  mma_integers<X_SIGNED>(sums, a, b);
#elif TF32
  mma_tf32(sums, a, b);
#elif ELEMENT == 1
  mma_f16(sums, a, b);
#else
  mma_bf16(sums, a, b);
#endif
}

// The offset in a step of chunk `chunk` of row or column `index`, swizzled against bank conflicts.
__device__ inline int place(int index, int chunk) {
  return index * kStepBytes + (chunk ^ (index >> 1 & 3)) * kChunkBytes;
}

constexpr int kChunkElements = kChunkBytes / sizeof(Element);

// Copies the rows of the steps of a tile to shared memory, in turn.
struct RowLoader {
  const Gemm& p;
  const unsigned char* rows[kLoadsM];  // of the next step
  int phase[kLoadsM];                  // -1: no row
  SharedAddress to;

  __device__ RowLoader(const Gemm& params, const Tile& tile, SharedAddress memory, int step, int thread) : p(params) {
    const long long panels = static_cast<long long>(tile.group * p.lists + tile.list) * p.panels;
#pragma unroll
    for (int i = 0; i < kLoadsM; ++i) {
      const int chunk = thread + kThreads * i, panel = tile.m * PANELS + chunk / (kPanelRows * kChunks);
      const bool present = chunk < PANELS * kPanelRows * kChunks && panel < p.panels;
      phase[i] = present ? (RAGGED ? panel % p.axis[kAxes - 1].phases : 0) : -1;
      rows[i] = p.packed + p.weights + ((panels + panel) * p.steps + step) * kBlockBytes +
                chunk % (kPanelRows * kChunks) * kChunkBytes;
    }
    to = memory + thread * kChunkBytes;
  }

  // Missing rows, and rows without a tap at this step, are not loaded; their products are not used.
  __device__ void load(int stage, unsigned phases) {
#pragma unroll
    for (int i = 0; i < kLoadsM; ++i) {
      if (phase[i] >= 0 && (!RAGGED || (phases >> phase[i] & 1) != 0)) {
        copy_async<16>(to + stage * kStageBytes + i * (kThreads * kChunkBytes), rows[i], true);
      }
      rows[i] += kBlockBytes;
    }
  }
};

// Copies the columns: `fetch` starts the loads; `put` and the wait for asynchronous copies complete them.
struct ColumnLoader {
#if SRC_CHUNKS
  // A thread copies one chunk of several columns, so that a warp reads whole cache lines.
  static constexpr int kOwnColumns = kColumns * kChunks / kThreads, kOwnChunks = 1;
  static constexpr int kColumnStep = kThreads / kChunks;
#else
  // A thread copies one column, so that the loads of a warp are coalesced.
  static constexpr int kOwnColumns = 1, kOwnChunks = kColumns * kChunks / kThreads;
  static constexpr int kColumnStep = kThreads;
#endif
  static constexpr bool kInRegisters = !SRC_CHUNKS && sizeof(Element) == 2;

  const Gemm& p;
  const Shift* shifts;
  ChunkCounter at;  // the first chunk of the thread
  int first_chunk;
  int base[kOwnColumns];
  int x[kOwnColumns][kAxes];
  SharedAddress memory;
  int column;
  Element values[kInRegisters ? kOwnChunks : 1][kChunkElements];

  __device__ ColumnLoader(const Gemm& params, const Tile& tile, SharedAddress shared, int step, int thread)
      : p(params), shifts(shifts_of(params, tile.list)), memory(shared) {
    column = SRC_CHUNKS ? thread / kChunks : thread % kColumns;
    first_chunk = SRC_CHUNKS ? thread % kChunks : thread / kColumns * kOwnChunks;
    at.start(p, step * kChunks + first_chunk);
#pragma unroll
    for (int i = 0; i < kOwnColumns; ++i) {
      const int number = tile.n * kColumns + column + kColumnStep * i;
      const bool present = number < p.positions;
      const Position position = position_of(p, present ? number : 0);
      base[i] = position.image * static_cast<int>(p.src_n) + tile.group * static_cast<int>(p.src_g);
#pragma unroll
      for (int a = 0; a < kAxes; ++a) {
        const PositionAxis& axis = p.axis[a];
        const int first = axis.src_first + position.at[a] * axis.src_stride;
        x[i][a] = present ? first : -(1 << 30);
        base[i] += first * static_cast<int>(axis.src_step);
      }
    }
  }

  // The phases of the last axis that have a tap at this step, where RAGGED.
  __device__ unsigned phases() const { return at.shift < p.shifts ? shifts[at.shift].phases : 0; }

  __device__ void fetch(int stage) {
    int shift = at.shift, chunk = at.chunk;
#pragma unroll
    for (int i = 0; i < kOwnChunks; ++i) {
      bool present = shift < p.shifts && chunk < p.src_chunks;
      const Shift* const entry = shifts + (shift < p.shifts ? shift : 0);
#if RAGGED
      present = present && entry->phases != 0;
#endif
      int delta[kAxes], offset = SRC_CHUNKS ? chunk : chunk * kChunkElements * static_cast<int>(p.src_c);
#pragma unroll
      for (int a = 0; a < kAxes; ++a) {
        delta[a] = entry->delta[a];
        offset += delta[a] * static_cast<int>(p.axis[a].src_step);
      }
#pragma unroll
      for (int j = 0; j < kOwnColumns; ++j) {
        bool inside = present;
#pragma unroll
        for (int a = 0; a < kAxes; ++a) {
          inside = inside && static_cast<unsigned>(x[j][a] + delta[a]) < static_cast<unsigned>(p.axis[a].src_size);
        }
        fetch_chunk(stage, i, j, chunk, base[j] + offset, inside);
      }
      ++chunk;
#if !WHOLE_STEPS
      if (chunk == p.chunks) {
        chunk = 0;
        ++shift;
      }
#endif
    }
    at.next_step(p);
  }

  __device__ void fetch_chunk(int stage, int i, int j, int chunk, int from, bool inside) {
    const SharedAddress to = place_of(stage, i, j);
#if SRC_CHUNKS
    copy_async<16>(to, p.src + static_cast<long long>(from) * kChunkBytes, inside);
#else
    const Element* const src = reinterpret_cast<const Element*>(p.src);
#pragma unroll
    for (int c = 0; c < kChunkElements; ++c) {
      const bool valid = inside && (WHOLE_STEPS || chunk * kChunkElements + c < p.problem.icg);
      const unsigned offset = static_cast<unsigned>(from) + c * static_cast<unsigned>(p.src_c);
      if (kInRegisters) {
        values[i][c] = valid ? src[offset] : Element();
      } else {
        copy_async<4>(to + c * 4, src + offset, valid);
      }
    }
#endif
  }

  __device__ void put(int stage) {
#pragma unroll
    for (int i = 0; i < kOwnChunks && kInRegisters; ++i) {
      unsigned words[4];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        words[w] = word_of(values[i], w * (kChunkElements / 4));
      }
      store_shared(place_of(stage, i, 0), words);
    }
  }

  __device__ SharedAddress place_of(int stage, int i, int j) const {
    return memory + stage * kStageBytes + kRowBytes + j * (kColumnStep * kStepBytes) + place(column, first_chunk + i);
  }
};

// Multiplies one step.
__device__ inline void multiply_step(Sums& sums, SharedAddress rows, SharedAddress columns, int lane,
                                     const bool (&active)[kWarpPanels]) {
  // The row that the lane addresses of the four matrices of a fragment.
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
    for (int i = 0; i < kWarpPanels; ++i) {
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
  RowLoader row_loader(p, tile, memory, steps.begin, thread);
  ColumnLoader column_loader(p, tile, memory, steps.begin, thread);
  const int count = steps.end - steps.begin;
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < count) {
      row_loader.load(i, RAGGED ? column_loader.phases() : 0);
      column_loader.fetch(i);
      column_loader.put(i);
    }
    commit_copies();
  }
  const int first_panel = warp / kWarpsN * kWarpPanels;
  const SharedAddress rows = memory + first_panel * kBlockBytes;
  const SharedAddress columns = memory + kRowBytes + warp % kWarpsN * (kWarpColumns * kStepBytes);
  ChunkCounter at;
  at.start(p, steps.begin * kChunks);
  unsigned own_phase[kWarpPanels] = {};  // of each panel, as a bit
#if RAGGED
#pragma unroll
  for (int g = 0; g < kWarpPanels; ++g) {
    int phase = tile.m * PANELS + first_panel + g;
    divide(&phase, p.axis[kAxes - 1].by_phases);
    own_phase[g] = 1u << phase;
  }
#endif
  int stage = 0;
  for (int i = 0; i < count; ++i) {
    wait_for_copies<kStages - 2>();
    __syncthreads();
    const int next = stage == 0 ? kStages - 1 : stage - 1;
    const bool more = i + kStages - 1 < count;
    if (more) {
      row_loader.load(next, RAGGED ? column_loader.phases() : 0);
      column_loader.fetch(next);
    }
    commit_copies();
    bool active[kWarpPanels];
#if RAGGED
    const unsigned phases = at.shift < p.shifts ? shifts_of(p, tile.list)[at.shift].phases : 0;
#pragma unroll
    for (int g = 0; g < kWarpPanels; ++g) {
      active[g] = (phases & own_phase[g]) != 0;
    }
    at.next_step(p);
#endif
    multiply_step(sums, rows + stage * kStageBytes, columns + stage * kStageBytes, lane, active);
    if (more) column_loader.put(next);
    stage = stage == kStages - 1 ? 0 : stage + 1;
  }
}

__device__ inline void write_sums(const Gemm& p, const Tile& tile, const Sums& sums, int thread) {
  DstElement* const staging = reinterpret_cast<DstElement*>(shared_memory());
  Tables& tables = *reinterpret_cast<Tables*>(shared_memory() + kPipelineBytes);
  const int warp = thread / 32, lane = thread % 32;
  const Epilogue epilogue(p.problem);
  fill_tables(p, tile, tables, thread, kThreads);
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
    __syncthreads();  // the steps, or the pass before, have been read
    const int skew = skew_of(p, tables);
#pragma unroll
    for (int i = 0; i < kWarpPanels; ++i) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const int row = (warp / kWarpsN * kWarpPanels + i) * kPanelRows + part * 8 + lane / 4;
#pragma unroll
        for (int j = 0; j < kWarpColumns / 8; ++j) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int column = warp % kWarpsN * kWarpColumns + j * 8 + lane % 4 * 2 + e - pass * kPassColumns;
            if (kPasses > 1 && (column < 0 || column >= kPassColumns)) continue;
            stage(staging, skew, row, column,
                  result_of(p, tables, epilogue, row, pass * kPassColumns + column, sums[i][j][part * 2 + e]));
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

#define SUMS (&sums[0][0][0])
#include "cuda/device/split.h"
