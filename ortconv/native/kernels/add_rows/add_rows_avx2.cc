#include "kernels/add_rows/add_rows_loops.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {

template <class T>
void add_rows_avx2(const AddRowsArgs<T>& args) {
  add_rows<avx2::Vectors<T>>(args);
}

template void add_rows_avx2(const AddRowsArgs<float>&);
template void add_rows_avx2(const AddRowsArgs<double>&);

}  // namespace ortconv::kernels
