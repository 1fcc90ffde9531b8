// Conv and ConvTranspose whose filters are those of a short-time Fourier transform, or a diagonal matrix.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ep/graph.h"
#include "ep/spectral_basis.h"
#include "ep/standard_convs.h"
#include "ort/fourier/cpu.h"

namespace ortconv::ep {

struct SpectralLayer {
  FourierOp op;
  StftAttributes attributes;
  StftConstants constants;
};

// What was found of nodes when they were claimed, so that their kernels need not find it again. Any number of threads
// may use it.
class SpectralNodes {
 public:
  void insert(const std::string& name, const Basis& basis);
  std::optional<Basis> find(const std::string& name) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Basis> bases_;
};

// What is known of a Conv or ConvTranspose of one spatial axis.
struct SpectralNode {
  std::string name;
  const StandardAttributes& attributes;
  DataType dtype;
  std::optional<TensorView> weights;  // none: they are not constant
  bool adds;                          // it has a bias that may be other than zero
};

// The layer that the node is; none where its filters do not resemble a basis. Throws Error where they do, and the node
// is none all the same.
std::optional<SpectralLayer> read_spectral(bool is_transposed, const SpectralNode& node, SpectralNodes* known);

}  // namespace ortconv::ep
