#include <algorithm>
#include <cstring>

#include "kernels/winograd/transform_loops.h"

namespace ortconv::kernels::winograd {
namespace {

inline uint32_t largest(const float* values, int64_t count) {
  uint32_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, sizeof bits);
    bits &= 0x7fffffffu;
    most = bits > most ? bits : most;
  }
  return most;
}

template <int kStep>
uint32_t split_by(const Cut* cuts, int64_t num_cuts, const float* row, int64_t begin, int64_t end, int64_t tiles,
                  float* out, int64_t stride) {
  constexpr int64_t kLine = kLanes * kStep + 4;
  float e[4][kLanes], line[kLine];
  uint32_t most = 0;
  for (int64_t t = 0; t < tiles; t += kLanes, out += kLanes) {
    const int64_t at = t * kStep;
    const int64_t from = std::clamp<int64_t>(begin - at, 0, kLine), to = std::clamp<int64_t>(end - at, from, kLine);
    std::fill(line, line + from, 0.0f);
    std::copy(row + at + from, row + at + to, line + from);
    std::fill(line + to, line + kLine, 0.0f);
    most = std::max(most, largest(line, kLine));
    for (int64_t w = 0; w < 4; ++w) {
      for (int64_t l = 0; l < kLanes; ++l) e[w][l] = line[l * kStep + w];
    }
    float* to_point = out;
    for (const Cut* cut = cuts; cut != cuts + num_cuts; ++cut) {
      const float* const rows[] = {e[cut->skip], e[(cut->skip + 1) % 4], e[(cut->skip + 2) % 4],
                                   e[(cut->skip + 3) % 4]};
      source_loops(cut->filter, kStep, rows, kLanes, to_point, stride);
      to_point += points_of(cut->filter, kStep) * stride;
    }
  }
  return most;
}

uint32_t split(const Cut* cuts, int64_t num_cuts, int64_t step, const float* row, int64_t begin, int64_t end,
               int64_t tiles, float* out, int64_t stride) {
  return with_step(step, [&](auto s) { return split_by<s>(cuts, num_cuts, row, begin, end, tiles, out, stride); });
}

}  // namespace

extern const TransformKernels kTransforms_generic;
const TransformKernels kTransforms_generic = {"winograd_generic", split, source_loops, result_loops, {}};

}  // namespace ortconv::kernels::winograd
