// Depthwise convolution and groups of few channels.
//
// A thread computes PHASES outputs of a position of the last axis at a time. A warp computes one row of outputs or
// several short ones; its lanes are positions or, with DST_CHANNELS, channels. AXES spatial axes.
//
// KER: the taps of the last axis where taps and phases are few; a thread then computes several positions with the
// weights of a row in registers. Otherwise 0. UNIT: neighbouring taps are adjacent in src.

#include "cuda/device/divide.h"
#include "cuda/device/result.h"
#include "cuda/device/values.h"
#include "cuda/params/convolution.h"

namespace ortconv {
namespace cuda {

constexpr int kAxes = AXES, kLast = AXES - 1;
constexpr int kPhases = PHASES;
constexpr int kThreads = 128;
constexpr int kTileChannels = DST_CHANNELS ? 32 : 1;
constexpr bool kTransposed = TRANSPOSED;
constexpr int kTogether = KER == 0 ? 1 : kPhases <= 4 ? 4 : 2;  // positions of a thread
constexpr int kOutside = -(1 << 30);                            // outside of any src

// The taps of an axis that reach an output place: k = phase + i * step for i in [begin, end), src = first + i * move.
struct Reach {
  int phase, first, begin, end;
};

__device__ inline int tap_step(const Problem& p, int axis) {
  return kTransposed ? static_cast<int>(p.axis[axis].stride) : 1;
}
__device__ inline int src_move(const Problem& p, int axis) {
  const int dilation = static_cast<int>(p.axis[axis].dilation);
  return kTransposed ? -dilation : dilation;
}

__device__ inline int quotient(int n, const Divisor& by) { return divide(&n, by); }
__device__ inline int ceil_quotient(int n, const Divisor& by) {
  return quotient(n + static_cast<int>(by.divisor) - 1, by);
}

__device__ inline Reach reach_of(const Depthwise& params, int axis, int y) {
  const Axis& a = params.problem.axis[axis];
  const Divisor& by_dilation = params.by_dilation[axis];
  const int stride = static_cast<int>(a.stride), pad = static_cast<int>(a.pad), ker = static_cast<int>(a.ker);
  const int size = static_cast<int>(a.src_size);
  Reach reach;
  int taps;
  if (kTransposed) {
    reach.phase = y + pad;
    reach.first = divide(&reach.phase, params.by_stride[axis]);
    taps = reach.phase < ker ? quotient(ker - reach.phase - 1, params.by_stride[axis]) + 1 : 0;
    reach.begin = reach.first < size ? 0 : ceil_quotient(reach.first - size + 1, by_dilation);
    reach.end = quotient(reach.first, by_dilation) + 1;
  } else {
    reach.phase = 0;
    reach.first = y * stride - pad;
    taps = ker;
    reach.begin = reach.first >= 0 ? 0 : ceil_quotient(-reach.first, by_dilation);
    reach.end = reach.first < size ? quotient(size - 1 - reach.first, by_dilation) + 1 : 0;
  }
  reach.end = reach.end < taps ? reach.end : taps;
  return reach;
}

typedef Sum Sums[kTogether][kPhases];

#if KER
constexpr int kRowTaps = (KER + kPhases - 1) / kPhases;  // of the first phase; others may have one less

// Adds the products of one row of src to all phases of the positions.
__device__ inline void add_row(const Problem& p, const Values& values, const SrcElement* row, const Factor* weights,
                               const int (&first)[kTogether], int, Sums& sums) {
  const Axis& axis = p.axis[kLast];
  const int move = UNIT ? (kTransposed ? -1 : 1) : src_move(p, kLast);
  const long long step = UNIT ? 1 : axis.src_step, apart = UNIT ? move : move * step;
  const unsigned size = static_cast<unsigned>(axis.src_size);
  Factor own[KER];
#pragma unroll
  for (int k = 0; k < KER; ++k) own[k] = weights[k * kTileChannels];
  long long from[kTogether];
#pragma unroll
  for (int q = 0; q < kTogether; ++q) from[q] = first[q] * step;
#pragma unroll
  for (int i = 0; i < kRowTaps; ++i) {
#pragma unroll
    for (int q = 0; q < kTogether; ++q) {
      if (static_cast<unsigned>(first[q] + i * move) >= size) continue;
      const Factor value = values.of_src(row[from[q] + i * apart]);
#pragma unroll
      for (int r = 0; r < kPhases; ++r) {
        if (i * kPhases + r < KER) sums[q][r] = multiply_add(value, own[i * kPhases + r], sums[q][r]);
      }
    }
  }
}
#else
// Adds the products of one row of src to the phases [phase, phase + kPhases) of a position.
__device__ inline void add_row(const Problem& p, const Values& values, const SrcElement* row, const Factor* weights,
                               const int (&first)[kTogether], int phase, Sums& sums) {
  const Axis& axis = p.axis[kLast];
  const int ker = static_cast<int>(axis.ker), step = tap_step(p, kLast), move = src_move(p, kLast);
  const int size = static_cast<int>(axis.src_size);
#pragma unroll 4
  for (int k = phase, x = first[0]; k < ker; k += step, x += move) {
    if (x < 0 || x >= size) continue;
    const Factor value = values.of_src(row[x * axis.src_step]);
#pragma unroll
    for (int r = 0; r < kPhases; ++r) {
      if (r == 0 || (phase + r < step && k + r < ker)) {
        sums[0][r] = multiply_add(value, weights[(k + r) * kTileChannels], sums[0][r]);
      }
    }
  }
}
#endif

}  // namespace cuda
}  // namespace ortconv

KERNEL(depthwise, ortconv::cuda::Depthwise, ortconv::cuda::kThreads, KER ? 5 : 8) {
  using namespace ortconv::cuda;
  const Problem& p = params.problem;
  // [channel of the group][tap][channel of the tile]
  Factor* const weights = reinterpret_cast<Factor*>(shared_memory());
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int icg = static_cast<int>(p.icg), ocg = static_cast<int>(p.ocg), taps = params.taps;
  const int oc_all = static_cast<int>(p.groups) * ocg;

  unsigned block = blockIdx.x;
  const int share = static_cast<int>(block % params.blocks);
  block /= params.blocks;
  const int tile = static_cast<int>(block % params.channel_tiles);
  const int image = static_cast<int>(block / params.channel_tiles);

  // Row-major taps of the channels of the tile.
  const WeiElement* const wei = static_cast<const WeiElement*>(p.wei);
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
    weights[i] = Values(p, oc).of_wei(wei[from]);
  }
  __syncthreads();

  const int oc = tile * kTileChannels + (DST_CHANNELS ? lane : 0);
  if (oc >= oc_all) return;
  const Channel channel = channel_of(p, oc);
  const Epilogue epilogue(p);
  const Values values(p, oc);
  const SrcElement* const src = static_cast<const SrcElement*>(p.src) + image * p.src_n + oc / ocg * (icg * p.src_c);
  DstElement* const dst = static_cast<DstElement*>(p.dst);
  const Factor* const own_weights = weights + (DST_CHANNELS ? lane : 0);
  const Axis& last = p.axis[kLast];
  const int stride = static_cast<int>(last.stride), ker = static_cast<int>(last.ker);
  const int last_phases = KER ? kPhases : kTransposed ? stride : 1;

  constexpr int kWarps = kThreads / 32;
  const int row_lanes = DST_CHANNELS ? 1 : params.row_lanes, rows = DST_CHANNELS ? 1 : 32 / row_lanes;
  const int row_lane = DST_CHANNELS ? 0 : lane % row_lanes, own_row = DST_CHANNELS ? 0 : lane / row_lanes;
  for (int unit = share * kWarps + warp; unit < params.units; unit += params.blocks * kWarps) {
    int segment = unit, row = divide(&segment, params.by_segments) * rows + own_row;
    if (row >= params.rows) continue;
    long long to_row = 0;
    Reach reach[kAxes];
    bool any = true;
#pragma unroll
    for (int a = kLast - 1; a >= 0; --a) {
      int y = row;
      row = divide(&y, params.by_dst_size[a]);
      to_row += y * p.axis[a].dst_step;
      reach[a] = reach_of(params, a, y);
      any = any && reach[a].begin < reach[a].end;
    }
    const int begin = segment * params.segment_positions;
    const int end =
        begin + params.segment_positions < params.positions ? begin + params.segment_positions : params.positions;
    for (int j = begin + row_lane; j < end; j += kTogether * row_lanes) {
      int first[kTogether];
#pragma unroll
      for (int q = 0; q < kTogether; ++q) {
        const int position = params.position_first + j + q * row_lanes;
        first[q] = kTransposed ? position : position * stride - static_cast<int>(last.pad);
        if (j + q * row_lanes >= end) first[q] = kOutside;
      }
      for (int phase = 0; phase < last_phases; phase += kPhases) {
        Sums sums;
#pragma unroll
        for (int q = 0; q < kTogether; ++q) {
#pragma unroll
          for (int r = 0; r < kPhases; ++r) sums[q][r] = values.start(channel.bias);
        }
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
            add_row(p, values, src + from + c * p.src_c, own_weights + (c * taps + tap * ker) * kTileChannels, first,
                    phase, sums);
          }
          int a = kLast - 1;
#pragma unroll
          for (; a >= 0; --a) {
            if (++i[a] < reach[a].end) break;
            i[a] = reach[a].begin;
          }
          more = a >= 0;
        }
#pragma unroll
        for (int q = 0; q < kTogether; ++q) {
          if (j + q * row_lanes >= end) break;
          const int position = params.position_first + j + q * row_lanes;
          const int y = position * last_phases + phase - (kTransposed ? static_cast<int>(last.pad) : 0);
          const long long in_image = oc * p.dst_c + to_row + y * last.dst_step;
          const Place first_place = {image * p.dst_n + in_image, in_image};
#pragma unroll
          for (int r = 0; r < kPhases; ++r) {
            if (phase + r < last_phases && static_cast<unsigned>(y + r) < static_cast<unsigned>(last.dst_size)) {
              const Place place = {first_place.at + r * last.dst_step, first_place.in_image + r * last.dst_step};
              dst[place.at] = epilogue.result(p, channel, sums[q][r], place);
            }
          }
        }
      }
    }
  }
}
