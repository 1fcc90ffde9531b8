#include "kernels/add_rows/add_rows_loops.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels {

template <class T>
void add_rows_avx512(const AddRowsArgs<T>& args) {
  add_rows<avx512::Vectors<T>>(args);
}

template void add_rows_avx512(const AddRowsArgs<float>&);
template void add_rows_avx512(const AddRowsArgs<double>&);

}  // namespace ortconv::kernels
