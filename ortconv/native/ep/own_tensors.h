// Tensors in memory of their own: nodes that were fused have no constant inputs, and the graph dies before they run.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ort/abi/tensors.h"

namespace ortconv::ep {

class OwnTensors {
 public:
  // Copies the bytes. The result lives as long as this.
  TensorView add(Shape dims, size_t bytes, const void* data);

 private:
  struct Tensor {
    Shape dims;
    std::unique_ptr<double[]> memory;  // aligned for every type
  };

  std::vector<std::unique_ptr<Tensor>> tensors_;
};

}  // namespace ortconv::ep
