#include "ort/product_kernel.h"

#include <type_traits>

#include "base/arch.h"
#include "kernels/widen/widen.h"
#include "ops/pool_size.h"
#include "ort/boundary.h"
#include "ort/product_inputs.h"
#include "ort/tensors.h"

namespace ortconv {
namespace {

// Scales of X's type T as floats, which the kernels want: in `memory`, where they are none.
template <class T>
const float* widen(const T* scales, int64_t count, float* memory) {
  if constexpr (std::is_same_v<T, float>) {
    return scales;
  } else {
    kernels::get_widen_kernel(ArchFlags::host()).run(scales, count, memory);
    return memory;
  }
}

template <class T>
class ProductKernel : public Kernel {
 public:
  explicit ProductKernel(const ProductCreation& creation)
      : Kernel(creation.api, creation.subject),
        code_(creation.code),
        block_(block_size_of(creation.api, creation.info)) {}

  void compute(OrtKernelContext* context) const override;

 private:
  kernels::Code code_;
  int64_t block_;
  mutable PoolSize pool_size_;
};

template <class T>
void ProductKernel<T>::compute(OrtKernelContext* context) const {
  const ProductInputs in(api(), context);
  const ProductSizes sizes = product_sizes(ProductShapes(api(), in), block_);
  kernels::CompressedMatrix matrix{code_, sizes.n, sizes.k, block_, data_of(api(), in.data), nullptr};
  if (in.zero_point != nullptr) matrix.zeros = data_of(api(), in.zero_point);

  OrtValue* y = nullptr;
  invoke<abi::KernelContextGetOutput>(api(), context, size_t{0}, sizes.y.data(), sizes.y.size(), &y);
  const ArchFlags arch = ArchFlags::host();
  SessionThreads threads(api(), context);
  Parallel parallel = threads.parallel();
  parallel.threads = pool_size_.threads(parallel);
  const int64_t scales = sizes.n * (sizes.k / block_);
  const size_t own = kernels::compressed_scratch_bytes<T>(arch, matrix, sizes.m, parallel.threads);
  const Scratch scratch(api(), context, y,
                        own + (std::is_same_v<T, float> ? 0 : static_cast<size_t>(scales) * sizeof(float)));
  auto* const memory = static_cast<unsigned char*>(scratch.data());
  matrix.scales =
      widen(static_cast<const T*>(data_of(api(), in.scale)), scales, reinterpret_cast<float*>(memory + own));
  kernels::multiply_compressed(arch, matrix, sizes.m, static_cast<const T*>(data_of(api(), in.x)),
                               static_cast<T*>(data_of(api(), y)), memory, parallel);
}

}  // namespace

std::unique_ptr<Kernel> make_product_kernel(const ProductCreation& creation) {
  switch (creation.dtype) {
    case DataType::kFloat16:
      return std::make_unique<ProductKernel<Float16>>(creation);
    case DataType::kBfloat16:
      return std::make_unique<ProductKernel<Bfloat16>>(creation);
    default:
      return std::make_unique<ProductKernel<float>>(creation);
  }
}

}  // namespace ortconv
