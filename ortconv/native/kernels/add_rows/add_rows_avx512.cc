#include "kernels/add_rows/add_rows_loops.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels {
namespace {

template <class T>
struct Vectors {
  static constexpr int kLanes = avx512::kLanes<T>;
  static auto load(const T* from) { return avx512::load(from); }
  template <class Vector>
  static auto add(Vector a, Vector b) {
    return avx512::add(a, b);
  }
  template <class Vector>
  static void store(T* to, Vector v) {
    avx512::store(to, v);
  }
};

}  // namespace

template <class T>
void add_rows_avx512(const AddRowsArgs<T>& args) {
  add_rows<Vectors<T>>(args);
}

template void add_rows_avx512(const AddRowsArgs<float>&);
template void add_rows_avx512(const AddRowsArgs<double>&);

}  // namespace ortconv::kernels
