// The operators that this provider may claim.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "ep/cost.h"
#include "ep/graph.h"
#include "ep/spectral.h"
#include "ort/abi/custom_op.h"
#include "ort/abi/kernel.h"
#include "ort/settings.h"

namespace ortconv::ep {

// What one ONNX Runtime session says.
struct Session {
  const OrtApi* api;
  Settings settings;
  CustomOps operators = {};  // of ours, for the CPU
  bool fuses = true;         // neighbours of a node become one with it
  bool chooses = true;       // nodes that ONNX Runtime computes faster stay with it
  std::string report = {};   // see report()
  std::shared_ptr<SpectralNodes> spectral = std::make_shared<SpectralNodes>();
};

// What is to be done with a node that is not refused.
struct Decision {
  bool is_looked_at = true;  // else it is none of ours, and nothing is said of it
  bool is_alone = false;     // no neighbour is fused with it
  Estimates estimates = {};
};

struct Claim {
  std::string domain, op_type;
  int first, last;              // versions of the operator in which it may be stated
  const char* type_name;        // of a type parameter of its schema; null: the types are not looked at
  std::vector<DataType> types;  // that it may have
  // Throws Error where the node stays as it is; the message says why.
  Decision (*require)(const Session&, const Node&);
  // Creates the kernel of a node by itself.
  OrtStatus* (*create)(const Claim&, const Session&, const OrtKernelInfo*, void** kernel);
};

// All of them. The list lives as long as the process.
const std::vector<Claim>& claims();

// The claim for a node; null where there is none.
const Claim* find_claim(const Node& node);

// The rows of the list.
Claim conv_transpose_claim(int first, int last);
std::vector<Claim> fourier_claims();
Claim conv_claim(int first, int last);
std::vector<Claim> operator_claims();

}  // namespace ortconv::ep
