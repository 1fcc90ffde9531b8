#include "kernels/add_rows/add_rows.h"

namespace ortconv::kernels {

template <class T>
void add_rows_generic(const AddRowsArgs<T>& args) {
  for (int64_t row = 0; row < args.rows; ++row) {
    const T* src = args.src + row * args.src_step;
    T* dst = args.dst + row * args.dst_step;
    for (int64_t i = 0; i < args.length; ++i) dst[i] += src[i];
  }
}

template void add_rows_generic(const AddRowsArgs<float>&);
template void add_rows_generic(const AddRowsArgs<double>&);

}  // namespace ortconv::kernels
