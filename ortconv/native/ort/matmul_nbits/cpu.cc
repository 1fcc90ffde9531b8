#include <algorithm>
#include <type_traits>

#include "base/arch.h"
#include "kernels/matmul_nbits/rows_by_matrix.h"
#include "kernels/to_float/to_float.h"
#include "ops/pool_size.h"
#include "ort/abi/boundary.h"
#include "ort/abi/tensors.h"
#include "ort/matmul_nbits/inputs.h"
#include "ort/matmul_nbits/op.h"

namespace ortconv {
namespace {

// What all of these ops do once it is known which rows of y are made of what.
template <class T>
class MatMulKernel : public Kernel {
 public:
  explicit MatMulKernel(const MatMulCreation& creation)
      : Kernel(creation.api, creation.subject),
        op_(creation.op),
        code_(creation.code),
        block_(block_size_of(creation.api, creation.info)) {}

  void compute(OrtKernelContext* context) const override {
    const MatMulInputs in(api(), op_, context);
    const MatMulShapes shapes(api(), in);
    if (!op_.gathers) {
      const MatMulSizes sizes = matmul_sizes(shapes, block_);
      const kernels::QuantizedMatrix matrix = matrix_of(in, sizes.n, sizes.k);
      multiply(context, in, matrix, kernels::RowGroups::all(sizes.m, matrix), make_output(api(), context, sizes.y));
      return;
    }
    const GatherMatMulSizes sizes = gather_matmul_sizes(shapes, block_);
    OrtValue* const y = make_output(api(), context, sizes.y);
    if (sizes.count * sizes.n == 0) return;  // matrices without rows may be more than any memory has room to count
    const kernels::RowsByMatrix named = kernels::rows_by_matrix(static_cast<const int64_t*>(data_of(api(), in.index)),
                                                                sizes.count, sizes.sharing, sizes.matrices, sizes.n);
    T* const rows = static_cast<T*>(data_of(api(), y));
    for (const int64_t row : named.without_matrix) std::fill_n(rows + row * sizes.n, sizes.n, T());
    multiply(context, in, matrix_of(in, sizes.matrices * sizes.n, sizes.k), named.rows, y);
  }

 private:
  // Without its scales.
  kernels::QuantizedMatrix matrix_of(const MatMulInputs& in, int64_t rows, int64_t columns) const {
    kernels::QuantizedMatrix matrix{code_, rows, columns, block_, data_of(api(), in.data), nullptr};
    if (in.zero_point != nullptr) matrix.zeros = data_of(api(), in.zero_point);
    if (in.codebook != nullptr) matrix.table = static_cast<const float*>(data_of(api(), in.codebook));
    return matrix;
  }

  void multiply(OrtKernelContext* context, const MatMulInputs& in, kernels::QuantizedMatrix matrix,
                const kernels::RowGroups& rows, OrtValue* y) const;

  MatMulOp op_;
  kernels::Code code_;
  int64_t block_;
  mutable PoolSize pool_size_;
};

template <class T>
void MatMulKernel<T>::multiply(OrtKernelContext* context, const MatMulInputs& in, kernels::QuantizedMatrix matrix,
                               const kernels::RowGroups& rows, OrtValue* y) const {
  const ArchFlags arch = ArchFlags::host();
  SessionThreads threads(api(), context);
  Parallel parallel = threads.parallel();
  parallel.threads = pool_size_.threads(parallel);
  const auto* const scales = static_cast<const T*>(data_of(api(), in.scale));
  const int64_t blocks = matrix.k / matrix.block;
  const size_t own = kernels::matmul_nbits_scratch_bytes<T>(arch, matrix, rows, parallel.threads);
  const size_t widened = std::is_same_v<T, float> ? 0 : static_cast<size_t>(matrix.n * blocks) * sizeof(float);
  const Scratch scratch(api(), context, y, own + widened);
  auto* const memory = static_cast<unsigned char*>(scratch.data());
  if constexpr (std::is_same_v<T, float>) {
    matrix.scales = scales;
  } else {  // the kernels want floats, of the rows that are multiplied by
    auto* const floats = reinterpret_cast<float*>(memory + own);
    for (const kernels::RowGroup& group : rows.groups) {
      const int64_t begin = group.first * blocks;
      kernels::get_to_float_kernel(arch).run(scales + begin, rows.width * blocks, floats + begin);
    }
    matrix.scales = floats;
  }
  kernels::matmul_nbits(arch, matrix, rows, static_cast<const T*>(data_of(api(), in.x)),
                        static_cast<T*>(data_of(api(), y)), memory, parallel);
}

}  // namespace

std::unique_ptr<Kernel> make_matmul_kernel(const MatMulCreation& creation) {
  return kernels::with_float_sum_type(creation.dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    return std::make_unique<MatMulKernel<decltype(zero)>>(creation);
  });
}

}  // namespace ortconv
