#include "kernels/gemm_col2im/axes.h"

#include <algorithm>
#include <numeric>

namespace ortconv::kernels::gemm_col2im {
namespace {

int64_t modulo(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }

// The inverse of a modulo n, which have no common divisor.
int64_t inverse_of(int64_t a, int64_t n) {
  int64_t r = n, next = modulo(a, n), t = 0, next_t = 1;
  while (next != 0) {
    const int64_t quotient = r / next;
    std::swap(r -= quotient * next, next);
    std::swap(t -= quotient * next_t, next_t);
  }
  return modulo(t, n);
}

void complete(Axis* a) {
  // Any stride does for a single position: one by which every tap is a residue of its own.
  if (a->src_size == 1) a->stride = align_up(a->dst_size, a->dilation);
  a->step = std::gcd(a->stride, a->dilation);
  a->period = a->stride / a->step;
  a->offset = a->pad % a->stride;
  a->inverse = inverse_of(a->dilation / a->step, a->period);
  const int64_t residues = ceil_div(std::min(a->stride, a->dst_size), a->step);
  a->slots = std::min({a->ker, a->period, residues});
  a->by_tap = a->slots == a->ker && a->ker < a->period;
  a->j_count = ceil_div(a->dst_size, a->stride);
  const int64_t reach = (a->ker - 1) * a->dilation;
  a->x_begin = std::max<int64_t>(0, ceil_div(a->pad - reach, a->stride));
  a->x_count = std::min(a->src_size, floor_div(a->pad + a->dst_size - 1, a->stride) + 1) - a->x_begin;
  a->x_count = std::max<int64_t>(0, a->x_count);
}

// Whether images share tiles: small ones, whose positions would not fill the vectors of a call, which are two. But
// where each is read in place, as for few rows, empty columns take less time than a copy.
bool share_tiles(const Plan& plan, const ConvProblem& p) {
  constexpr int64_t kCopied = 36;                              // products that take as long as copying a number
  const int64_t small = plan.arch.avx512 ? kGemmColumns : 12;  // positions; vectors of 8 are two there
  const int64_t positions = product_of(p.src_size, p.ndims);
  if (p.mb == 1 || positions > small) return false;
  if (!has_few_panels(plan)) return true;
  const int64_t columns = align_up(p.mb * positions, kGemmColumns);
  return plan.rows() * (p.mb * kGemmColumns - columns) > kCopied * p.mb * positions;
}

}  // namespace

int64_t Axis::dst_of(int64_t j) const {
  if (!by_position) return std::min(j * stride, dst_size);
  if (j == j_count) return dst_size;
  return j == 0 ? 0 : (x_begin + j) * stride - pad;
}

int64_t Axis::slot_of(int64_t residue) const {
  int64_t reached = residue + offset;
  if (reached >= stride) reached -= stride;
  if (dilation == 1 && by_tap) return reached < slots ? reached : -1;
  if (reached % step != 0) return -1;
  if (!by_tap) return residue / step;
  const int64_t tap = reached / step * inverse % period;
  return tap < slots ? tap : -1;
}

int64_t Axis::residue_of(int64_t slot) const {
  return by_tap ? modulo(slot * dilation - pad, stride) : slot * step + modulo(-pad, step);
}

bool Axis::is_plain() const {
  if (by_position) return true;
  const int64_t q = shift_of(0);
  const bool every_slot = slots == ker && (by_tap || period == ker);
  return every_slot && shift_of(ker - 1) == q && x_begin + q == 0 && x_count == j_count;
}

Axes::Axes(const Plan& plan, const ConvProblem& p) : images(p.mb) {
  if (share_tiles(plan, p)) {
    images = 1;
    Axis& batch = axis[ndims++];
    batch = {};
    batch.ker = batch.stride = batch.dilation = 1;
    batch.src_size = batch.dst_size = p.mb, batch.src_x = p.src_n, batch.dst_x = p.dst_n;
  }
  for (int a = 0; a < p.ndims; ++a) {
    Axis& next = axis[ndims++];
    next = {};
    next.ker = p.ker[a], next.stride = p.stride[a], next.dilation = p.dilation[a], next.pad = p.pad[a];
    next.src_size = p.src_size[a], next.dst_size = p.dst_size[a], next.src_x = p.src_x[a], next.dst_x = p.dst_x[a];
  }
  src_end = (images - 1) * p.src_n + (p.ic - 1) * p.src_c + 1;
  dense = true;
  int64_t step = 1;
  double all = 1, needed = 1;
  for (int a = ndims - 1; a >= 0; --a) {
    Axis& x = axis[a];
    complete(&x);
    src_end += (x.src_size - 1) * x.src_x;
    dense &= x.src_x == step || x.src_size == 1;
    step *= x.src_size;
    if (a > 0) all *= static_cast<double>(x.src_size), needed *= static_cast<double>(x.x_count);
  }
  // Positions that reach nothing are multiplied as well where they are few.
  constexpr double kLeastShare = 0.75;
  if (needed < kLeastShare * all) dense = false;
  for (int a = 1; a < ndims && dense; ++a) axis[a].x_begin = 0, axis[a].x_count = axis[a].src_size;
}

}  // namespace ortconv::kernels::gemm_col2im
