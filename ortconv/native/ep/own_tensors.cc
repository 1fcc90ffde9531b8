#include "ep/own_tensors.h"

#include <cstring>
#include <utility>

namespace ortconv::ep {

TensorView OwnTensors::add(Shape dims, size_t bytes, const void* data) {
  tensors_.push_back(std::make_unique<Tensor>());
  Tensor& tensor = *tensors_.back();
  tensor.dims = std::move(dims);
  tensor.memory.reset(new double[bytes / sizeof(double) + 1]);
  if (bytes != 0) std::memcpy(tensor.memory.get(), data, bytes);
  return {tensor.memory.get(), {tensor.dims.data(), tensor.dims.size()}};
}

}  // namespace ortconv::ep
