#include <algorithm>

#include "kernels/conv/plan.h"
#include "kernels/winograd/plan.h"

namespace ortconv::kernels::winograd {
namespace {

constexpr int64_t kMostTaps = 27, kMostWeights = 64;  // of one class

// G g on every filtered axis: the taps of one class for one pair of channels, row-major over the axes, become its
// weights.
void transform_weights(const Plan& plan, const Unit& unit, const Family& family, double* values) {
  double out[kMostWeights];
  // From the first axis on; `done` points of the axes so far, `left` taps of those to come.
  int64_t done = 1, left = family.last.num_taps();
  for (int a = 0; a < plan.ndims - 1; ++a) left *= unit.outer[a].num_taps();
  for (int a = 0; a < plan.ndims; ++a) {
    const AxisClass& cls = a == plan.ndims - 1 ? family.last : unit.outer[a];
    const int64_t taps = cls.num_taps(), points = weights_of(cls.filter);
    left /= taps;
    if (cls.filter == Filter::kCopy) {
      done *= taps;
      continue;
    }
    for (int64_t i = 0; i < done; ++i) {
      for (int64_t j = 0; j < left; ++j) {
        double g[kMaxTaps], u[kMaxPoints];
        for (int64_t t = 0; t < taps; ++t) g[t] = values[(i * taps + t) * left + j];
        transform_taps(cls.filter, g, u);
        for (int64_t p = 0; p < points; ++p) out[(i * points + p) * left + j] = u[p];
      }
    }
    done *= points;
    std::copy_n(out, done * left, values);
  }
}

// Where in the weights the taps of class `cls` of a family are, without the channels. Returns their number.
int64_t tap_offsets(const Plan& plan, const Unit& unit, const Family& family, int64_t cls, const int64_t* wei_x,
                    int64_t* offsets) {
  const int last = plan.ndims - 1;
  const int64_t row_classes = static_cast<int64_t>(family.last_classes.size());
  const AxisClass* classes[kMaxAxes];
  int64_t taps = 1;
  for (int a = 0; a <= last; ++a) {
    const int64_t r =
        a == last ? family.last_classes[cls % row_classes] : unit.outer_classes[cls / row_classes * last + a];
    classes[a] = &plan.axis[a].classes[r];
    taps *= classes[a]->num_taps();
  }
  for (int64_t t = 0; t < taps; ++t) {
    offsets[t] = 0;
    for (int64_t a = last, rest = t; a >= 0; --a) {
      offsets[t] += classes[a]->taps[rest % classes[a]->num_taps()] * wei_x[a];
      rest /= classes[a]->num_taps();
    }
  }
  return taps;
}

template <class T>
void pack(const ConvProblem& p, const T* wei, Plan* plan) {
  const bool transposed = plan->op == Op::kConvTranspose;
  const int64_t ic = plan->ic;
  const int64_t oc_stride = transposed ? p.wei_1 : p.wei_0, ic_stride = transposed ? p.wei_0 : p.wei_1;
  plan->packed = Buffer(static_cast<size_t>(plan->packed_size()) * sizeof(float));
  float* out = plan->packed.as<float>();
  for (int64_t g = 0; g < plan->g; ++g, wei += (transposed ? ic : plan->oc) * p.wei_0) {
    for (int64_t block = 0; block < plan->num_blocks; ++block) {
      const int64_t oc_begin = plan->block_begin(block), oc_count = plan->block_begin(block + 1) - oc_begin;
      for (const Unit& unit : plan->units) {
        const int64_t sum = ic * unit.taps;
        for (const Family& family : unit.families) {
          const Panels panels(oc_count * family.num_classes, plan->gemm->mr);
          for (int64_t panel = 0; panel < panels.count; ++panel) {
            const int64_t begin = panels.begin(panel), rows = panels.begin(panel + 1) - begin;
            for (int64_t row = begin; row < begin + rows; ++row) {
              int64_t offsets[kMostTaps];
              const int64_t taps = tap_offsets(*plan, unit, family, row % family.num_classes, p.wei_x, offsets);
              const T* in = wei + (oc_begin + row / family.num_classes) * oc_stride;
              float* const to = out + begin * sum + row - begin;
              for (int64_t c = 0; c < ic; ++c, in += ic_stride) {
                double values[kMostWeights];
                for (int64_t t = 0; t < taps; ++t) values[t] = widen(in[offsets[t]]);
                transform_weights(*plan, unit, family, values);
                const int64_t first = c / plan->call * plan->call, depth = std::min(plan->call, ic - first);
                for (int64_t t = 0; t < unit.taps; ++t) {
                  float* const at = to + (first * unit.taps + t * depth + c - first) * rows;
                  for (int64_t w = 0; w < family.weights; ++w) {
                    at[w * panels.rows * sum] = static_cast<float>(values[t * family.weights + w]);
                  }
                }
              }
            }
          }
          out += family.weights * panels.rows * sum;
        }
      }
    }
  }
}

}  // namespace

void pack_weights(const ConvProblem& p, const void* wei, Plan* plan) {
  with_float_sum_type(plan->dtype, [&](auto zero) { pack(p, static_cast<const decltype(zero)*>(wei), plan); });
}

}  // namespace ortconv::kernels::winograd
