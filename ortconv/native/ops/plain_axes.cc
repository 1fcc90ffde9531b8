#include "ops/plain_axes.h"

#include <algorithm>
#include <cstdint>

namespace ortconv {
namespace {

// Whether there is one position, and nothing else.
bool is_single(const ConvProblem& p, int a) {
  return p.ker[a] == 1 && p.pad[a] == 0 && p.src_size[a] == 1 && p.dst_size[a] == 1;
}

bool is_plain(const ConvProblem& p, int a) {
  return p.ker[a] == 1 && p.stride[a] == 1 && p.pad[a] == 0 && p.dst_size[a] == p.src_size[a];
}

// Whether all numbers of the merged axis stay far from overflowing.
bool fits(const ConvProblem& p, int a, int64_t count) {
  constexpr double kMost = 1LL << 40;
  const int64_t largest = std::max({p.pad[a], p.src_size[a], p.dst_size[a], p.ker[a]});
  return static_cast<double>(largest) * static_cast<double>(p.dilation[a]) * static_cast<double>(count) < kMost;
}

bool can_merge(const ConvProblem& p, int a, int plain) {
  const int64_t count = p.src_size[plain];
  return p.stride[a] == 1 && is_plain(p, plain) && p.src_x[a] == p.src_x[plain] * count &&
         p.dst_x[a] == p.dst_x[plain] * count && fits(p, a, count);
}

void move_axis(ConvProblem* p, int from, int to) {
  for (int64_t* each :
       {p->src_size, p->dst_size, p->ker, p->stride, p->dilation, p->pad, p->src_x, p->wei_x, p->dst_x}) {
    each[to] = each[from];
  }
}

}  // namespace

ConvProblem without_plain_axes(const ConvProblem& full) {
  ConvProblem p = full;
  p.ndims = 0;
  for (int a = 0; a < full.ndims; ++a) {
    const bool is_last_chance = p.ndims == 0 && a + 1 == full.ndims;
    if (is_single(full, a) && !is_last_chance) continue;
    move_axis(&p, a, p.ndims);
    const int before = p.ndims - 1;
    if (before < 0 || !can_merge(p, before, p.ndims)) {
      ++p.ndims;
      continue;
    }
    const int64_t count = p.src_size[p.ndims];
    p.src_size[before] *= count;
    p.dst_size[before] *= count;
    p.pad[before] *= count;
    if (p.ker[before] > 1) p.dilation[before] *= count;
    p.src_x[before] = p.src_x[p.ndims];
    p.dst_x[before] = p.dst_x[p.ndims];
  }
  return p;
}

}  // namespace ortconv
