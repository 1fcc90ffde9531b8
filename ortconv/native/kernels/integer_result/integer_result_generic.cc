#include "kernels/integer_result/integer_result_loops.h"

namespace ortconv::kernels {
namespace {

struct NoVectors {
  template <class T>
  static int64_t finish(const IntegerResultArgs&, const float*, int64_t, T*) {
    return 0;
  }
};

}  // namespace

extern const IntegerResultKernel k_integer_result_generic;
const IntegerResultKernel k_integer_result_generic = integer_result_kernel<NoVectors>("integer_result_generic");

}  // namespace ortconv::kernels
