#include "ort/product_kernel.h"

#include "base/arch.h"
#include "ops/pool_size.h"
#include "ort/boundary.h"
#include "ort/product_inputs.h"
#include "ort/tensors.h"

namespace ortconv {
namespace {

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

void ProductKernel::compute(OrtKernelContext* context) const {
  const ProductInputs in(api(), context);
  const ProductSizes sizes = product_sizes(ProductShapes(api(), in), block_);
  kernels::CompressedMatrix matrix{
      code_, sizes.n, sizes.k, block_, data_of(api(), in.data), static_cast<const float*>(data_of(api(), in.scale))};
  if (in.zero_point != nullptr) matrix.zeros = data_of(api(), in.zero_point);

  OrtValue* y = nullptr;
  invoke<abi::KernelContextGetOutput>(api(), context, size_t{0}, sizes.y.data(), sizes.y.size(), &y);
  const ArchFlags arch = ArchFlags::host();
  SessionThreads threads(api(), context);
  Parallel parallel = threads.parallel();
  parallel.threads = pool_size_.threads(parallel);
  const Scratch scratch(api(), context, y,
                        kernels::compressed_scratch_bytes<float>(arch, matrix, sizes.m, parallel.threads));
  kernels::multiply_compressed(arch, matrix, sizes.m, static_cast<const float*>(data_of(api(), in.x)),
                               static_cast<float*>(data_of(api(), y)), scratch.data(), parallel);
}

}  // namespace

std::unique_ptr<Kernel> make_product_kernel(const ProductCreation& creation) {
  return std::make_unique<ProductKernel>(creation);
}

}  // namespace ortconv
