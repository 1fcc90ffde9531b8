#include "kernels/winograd/filter.h"

namespace ortconv::kernels::winograd {

void transform_taps(Filter filter, const double* g, double* out) {
  switch (filter) {
    case Filter::kCopy:
      out[0] = g[0];
      return;
    case Filter::k22:
      out[0] = g[0];
      out[1] = g[0] + g[1];
      out[2] = g[1];
      return;
    case Filter::k32:
      out[0] = g[0];
      out[1] = (g[0] + g[1]) / 2;
      out[2] = (g[0] - g[1]) / 2;
      out[3] = g[1];
      return;
    case Filter::k23:
      out[0] = g[0];
      out[1] = (g[0] + g[2] + g[1]) / 2;
      out[2] = (g[0] + g[2] - g[1]) / 2;
      out[3] = g[2];
      return;
  }
}

}  // namespace ortconv::kernels::winograd
