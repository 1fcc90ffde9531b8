// Convolution in groups of few channels, where there is little to share between outputs but what is read of src.
//
// A thread computes the PHASES outputs of a position of the last axis (in turns, where that axis has more phases). A
// warp takes a row of outputs, its lanes are positions or, with DST_CHANNELS, channels. AXES spatial axes.

#include "cuda/device.h"
#include "cuda/params.h"

namespace ortconv {
namespace cuda {

constexpr int kAxes = AXES, kLast = AXES - 1;
constexpr int kPhases = PHASES;
constexpr int kThreads = 128;
constexpr int kTileChannels = DST_CHANNELS ? 32 : 1;

// The taps of an axis that reach an output place: k = phase + i * step for i in [begin, end), src = first + i * move.
struct Reach {
  int phase, first, begin, end;
};

__device__ inline int tap_step(const Problem& p, int axis) {
  return p.transposed != 0 ? static_cast<int>(p.axis[axis].stride) : 1;
}
__device__ inline int src_move(const Problem& p, int axis) {
  const int dilation = static_cast<int>(p.axis[axis].dilation);
  return p.transposed != 0 ? -dilation : dilation;
}

__device__ inline int ceil_div(int a, int b) { return a / b + (a % b > 0); }

__device__ inline Reach reach_of(const Problem& p, int axis, int y) {
  const Axis& a = p.axis[axis];
  const int stride = static_cast<int>(a.stride), pad = static_cast<int>(a.pad), ker = static_cast<int>(a.ker);
  const int dilation = static_cast<int>(a.dilation), size = static_cast<int>(a.src_size);
  Reach reach;
  int taps;
  if (p.transposed != 0) {
    reach.phase = (y + pad) % stride;
    reach.first = (y + pad) / stride;
    taps = reach.phase < ker ? (ker - reach.phase - 1) / stride + 1 : 0;
    reach.begin = reach.first < size ? 0 : ceil_div(reach.first - size + 1, dilation);
    reach.end = reach.first / dilation + 1;
  } else {
    reach.phase = 0;
    reach.first = y * stride - pad;
    taps = ker;
    reach.begin = reach.first >= 0 ? 0 : ceil_div(-reach.first, dilation);
    reach.end = reach.first < size ? (size - 1 - reach.first) / dilation + 1 : 0;
  }
  reach.end = reach.end < taps ? reach.end : taps;
  return reach;
}

// Adds what the taps of one row of src give to the phases [phase, phase + kPhases) of a position.
__device__ inline void add_row(const Problem& p, const Element* row, const float* weights, int first, int phase,
                               float (&sums)[kPhases]) {
  const Axis& axis = p.axis[kLast];
  const int ker = static_cast<int>(axis.ker), step = tap_step(p, kLast), move = src_move(p, kLast);
  const int size = static_cast<int>(axis.src_size);
#pragma unroll 4
  for (int k = phase, x = first; k < ker; k += step, x += move) {
    if (x < 0 || x >= size) continue;
    const float value = to_float(row[x * axis.src_step]);
#pragma unroll
    for (int r = 0; r < kPhases; ++r) {
      if (r == 0 || (phase + r < step && k + r < ker)) {
        sums[r] = fmaf(value, weights[(k + r) * kTileChannels], sums[r]);
      }
    }
  }
}

}  // namespace cuda
}  // namespace ortconv

KERNEL(depthwise, ortconv::cuda::Depthwise, ortconv::cuda::kThreads, 8) {
  using namespace ortconv::cuda;
  const Problem& p = params.problem;
  float* const weights = reinterpret_cast<float*>(shared_memory());  // [channel of the group][tap][channel of the tile]
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int icg = static_cast<int>(p.icg), ocg = static_cast<int>(p.ocg), taps = params.taps;
  const int oc_all = static_cast<int>(p.groups) * ocg;

  unsigned block = blockIdx.x;
  const int share = static_cast<int>(block % params.blocks);
  block /= params.blocks;
  const int tile = static_cast<int>(block % params.channel_tiles);
  const int image = static_cast<int>(block / params.channel_tiles);

  // Row-major taps of the channels of the tile.
  const Element* const wei = static_cast<const Element*>(p.wei);
  for (int i = threadIdx.x; i < icg * taps * kTileChannels; i += kThreads) {
    const int oc = tile * kTileChannels + i % kTileChannels;
    int tap = i / kTileChannels % taps;
    const int c = i / kTileChannels / taps;
    if (oc >= oc_all) continue;
    long long from = oc / ocg * p.wei_g + oc % ocg * p.wei_oc + c * p.wei_ic;
#pragma unroll
    for (int a = kLast; a >= 0; --a) {
      const int ker = static_cast<int>(p.axis[a].ker);
      from += tap % ker * p.axis[a].wei_step;
      tap /= ker;
    }
    weights[i] = to_float(wei[from]);
  }
  __syncthreads();

  const int oc = tile * kTileChannels + (DST_CHANNELS ? lane : 0);
  if (oc >= oc_all) return;
  const Element* const bias = static_cast<const Element*>(p.bias);
  const float start = bias != nullptr ? to_float(bias[oc]) : 0.0f;
  const Element* const src = static_cast<const Element*>(p.src) + image * p.src_n + oc / ocg * (icg * p.src_c);
  Element* const dst = static_cast<Element*>(p.dst) + image * p.dst_n + oc * p.dst_c;
  const float* const own_weights = weights + (DST_CHANNELS ? lane : 0);
  const Axis& last = p.axis[kLast];
  const int stride = static_cast<int>(last.stride), ker = static_cast<int>(last.ker);
  const int last_phases = p.transposed != 0 ? stride : 1;

  constexpr int kWarps = kThreads / 32;
  for (long long unit = share * kWarps + warp; unit < params.units; unit += params.blocks * kWarps) {
    const int segment = static_cast<int>(unit % params.segments);
    long long row = unit / params.segments, to_row = 0;
    Reach reach[kAxes];
    bool any = true;
#pragma unroll
    for (int a = kLast - 1; a >= 0; --a) {
      const int y = static_cast<int>(row % p.axis[a].dst_size);
      row /= p.axis[a].dst_size;
      to_row += y * p.axis[a].dst_step;
      reach[a] = reach_of(p, a, y);
      any = any && reach[a].begin < reach[a].end;
    }
    const int begin = segment * params.segment_positions;
    const int end =
        begin + params.segment_positions < params.positions ? begin + params.segment_positions : params.positions;
    for (int j = begin + (DST_CHANNELS ? 0 : lane); j < end; j += DST_CHANNELS ? 1 : 32) {
      const int position = params.position_first + j;
      const int first = p.transposed != 0 ? position : position * stride - static_cast<int>(last.pad);
      for (int phase = 0; phase < last_phases; phase += kPhases) {
        float sums[kPhases];
#pragma unroll
        for (int r = 0; r < kPhases; ++r) sums[r] = start;
        int i[kAxes];
#pragma unroll
        for (int a = 0; a < kLast; ++a) i[a] = reach[a].begin;
        for (bool more = any; more;) {
          long long from = 0;
          int tap = 0;
#pragma unroll
          for (int a = 0; a < kLast; ++a) {
            from += (reach[a].first + i[a] * src_move(p, a)) * p.axis[a].src_step;
            tap = tap * static_cast<int>(p.axis[a].ker) + reach[a].phase + i[a] * tap_step(p, a);
          }
          for (int c = 0; c < icg; ++c) {
            add_row(p, src + from + c * p.src_c, own_weights + (c * taps + tap * ker) * kTileChannels, first, phase,
                    sums);
          }
          int a = kLast - 1;
#pragma unroll
          for (; a >= 0; --a) {
            if (++i[a] < reach[a].end) break;
            i[a] = reach[a].begin;
          }
          more = a >= 0;
        }
        const long long y = static_cast<long long>(position) * last_phases + phase - (p.transposed != 0 ? last.pad : 0);
#pragma unroll
        for (int r = 0; r < kPhases; ++r) {
          if (phase + r < last_phases && y + r >= 0 && y + r < last.dst_size) {
            dst[to_row + (y + r) * last.dst_step] = finish(sums[r], p.slope, p.minimum, p.maximum);
          }
        }
      }
    }
  }
}
