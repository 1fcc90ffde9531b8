// Packs weights for the implicit GEMM; see params/convolution.h and packed.h.

#include "cuda/device/packed.h"
#include "cuda/device/values.h"
#include "cuda/params/convolution.h"

namespace ortconv {
namespace cuda {

// The tap of phase r at shift q of an axis; -1 when there is none.
__device__ inline int tap_at(const Pack& p, int axis, int q, int r) {
  const int at = q * p.stride[axis] + r, k = at / p.dilation[axis];
  return k * p.dilation[axis] == at && k < p.ker[axis] ? k : -1;
}

__device__ inline bool any_tap_at(const Pack& p, int axis, int q, int first, int end) {
  for (int r = first; r < end; ++r) {
    if (tap_at(p, axis, q, r) >= 0) return true;
  }
  return false;
}

// Counts the shifts of an axis at which phases [first, end) have a tap, and finds number `index` of them.
__device__ inline int find_shift(const Pack& p, int axis, int first, int end, int index, int* shift) {
  const int most = (p.ker[axis] - 1) * p.dilation[axis] / p.stride[axis];
  int count = 0;
  for (int q = 0; q <= most; ++q) {
    if (!any_tap_at(p, axis, q, first, end)) continue;
    if (count == index) *shift = q;
    ++count;
  }
  return count;
}

// The shifts q of entry `index` of a list; false when the list is shorter.
__device__ inline bool shift_of(const Pack& p, int list, int index, int* q) {
  for (int a = p.ndims - 1; a >= 0; --a) {
    int first = 0, end = p.stride[a];
    if (a < p.ndims - 1 && p.uniform == 0) {
      first = list % p.stride[a];
      end = first + 1;
      list /= p.stride[a];
    }
    const int count = find_shift(p, a, first, end, -1, nullptr);
    if (count == 0) return false;
    find_shift(p, a, first, end, index % count, &q[a]);
    index /= count;
  }
  return index == 0;
}

__device__ inline Shift* shifts_of(const Pack& p) { return reinterpret_cast<Shift*>(p.packed + sizeof(PackedHeader)); }

// The sums of the weights of each row, for integers.
__device__ inline unsigned* row_sums_of(const Pack& p) { return reinterpret_cast<unsigned*>(p.packed + p.row_sums); }

}  // namespace cuda
}  // namespace ortconv

// Writes the header and the shifts, and clears the row sums.
KERNEL(pack_shifts, ortconv::cuda::Pack, 256, 1) {
  using namespace ortconv::cuda;
  const Pack& p = params;
  if (blockIdx.x == 0 && threadIdx.x == 0) reinterpret_cast<PackedHeader*>(p.packed)->is_unsuitable = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < p.lists * p.shifts; i += gridDim.x * blockDim.x) {
    Shift shift = {};
    int q[kMaxAxes] = {};
    if (shift_of(p, i / p.shifts, i % p.shifts, q)) {
      const int last = p.ndims - 1;
      for (int a = 0; a < p.ndims; ++a) shift.delta[a] = q[a] * p.delta[a];
      shift.phases = p.uniform != 0 ? ~0u : 0;
      for (int r = 0; r < p.stride[last] && p.uniform == 0; ++r) {
        if (tap_at(p, last, q[last], r) >= 0) shift.phases |= 1u << r;
      }
    }
    shifts_of(p)[i] = shift;
  }
#if ELEMENT == 3
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < p.groups * p.lists * p.panels * kPanelRows;
       i += gridDim.x * blockDim.x) {
    row_sums_of(p)[i] = 0;
  }
#endif
}

// Packs the weights, a chunk of a row at a time.
KERNEL(pack_weights, ortconv::cuda::Pack, 256, 1) {
  using namespace ortconv::cuda;
  const Pack& p = params;
  const WeiElement* const wei = static_cast<const WeiElement*>(p.wei);
  const long long step_of_grid = static_cast<long long>(gridDim.x) * blockDim.x;
  bool unsuitable = false;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.chunks_total;
       i += step_of_grid) {
    const int chunk = static_cast<int>(i % kChunks), row_of_panel = static_cast<int>(i / kChunks % kPanelRows);
    long long rest = i / (kChunks * kPanelRows);
    const long long block = rest;
    const int step = static_cast<int>(rest % p.steps);
    rest /= p.steps;
    const int panel = static_cast<int>(rest % p.panels);
    rest /= p.panels;
    const int list = static_cast<int>(rest % p.lists);
    const long long group = rest / p.lists;

    // The channel and the phases of the row.
    const int last = p.ndims - 1;
    int oc, r[kMaxAxes] = {};
    int outer = list;
    if (p.uniform != 0) {
      long long row = static_cast<long long>(panel) * kPanelRows + row_of_panel;
      r[last] = static_cast<int>(row % p.stride[last]);
      row /= p.stride[last];
      oc = static_cast<int>(row % p.ocg);
      outer = static_cast<int>(row / p.ocg);
    } else {
      r[last] = panel % p.stride[last];
      oc = panel / p.stride[last] * kPanelRows + row_of_panel;
    }
    for (int a = last - 1; a >= 0; --a) {
      r[a] = outer % p.stride[a];
      outer /= p.stride[a];
    }

    const int number = step * kChunks + chunk, shift = number / p.chunks, first = number % p.chunks * kPerChunk;
    int q[kMaxAxes] = {};
    bool present = outer == 0 && oc < p.ocg && shift < p.shifts && shift_of(p, list, shift, q);
    long long from = group * p.wei_g + oc * p.wei_oc;
    for (int a = 0; a < p.ndims && present; ++a) {
      const int k = tap_at(p, a, q[a], r[a]);
      present = k >= 0;
      from += k * p.wei_step[a];
    }
    const int w_zero = present ? w_zero_of(p.quantization, group * p.ocg + oc) : 0;
    Packed values[kPerChunk];
    for (int c = 0; c < kPerChunk; ++c) {
      values[c] = Packed();
      if (!present || first + c >= p.icg) continue;
      const WeiElement value = wei[from + (first + c) * p.wei_ic];
      unsuitable = unsuitable || !can_be_packed(value, w_zero);
      values[c] = packed_of(value, w_zero);
    }
    put_chunk(p.packed + p.weights + block * kBlockBytes, row_of_panel, chunk, values);
#if ELEMENT == 3
    int sum = 0;
    for (int c = 0; c < kPerChunk; ++c) sum += values[c];
    if (present) atomic_add(&row_sums_of(p)[block / p.steps * kPanelRows + row_of_panel], static_cast<unsigned>(sum));
#endif
  }
  if (unsuitable) atomic_or(&reinterpret_cast<PackedHeader*>(p.packed)->is_unsuitable, 1u);
}
