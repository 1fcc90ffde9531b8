// When a ConvTranspose is claimed, and the kernel of one that has no neighbour to fuse.
#include <algorithm>

#include "base/error.h"
#include "ep/claims.h"
#include "ep/compiled.h"
#include "ep/cost.h"
#include "ep/group.h"
#include "ep/numbers.h"
#include "ort/abi/boundary.h"

namespace ortconv::ep {
namespace {

constexpr DataType kFloats[] = {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16, DataType::kDouble};

// None for element types other than float: ONNX Runtime has no kernels of bfloat16 and double, and puts casts around
// one of float16. None either where sizes are not known; ours are faster for most.
Estimates estimates_of(const Group& group) {
  const auto sizes = sizes_of(group);
  if (group.dtype != DataType::kFloat || !sizes) return {};
  const ConvAttributes& attributes = group.conv.attributes;
  const auto weights = group.w.constant();
  const ConvProblem of_weights = weight_problem(attributes, weights ? weights->dims.copy() : *sizes->w);
  const ConvProblem problem = problem_of(attributes, &of_weights, *sizes);
  const void* const w = weights ? weights->data : nullptr;
  const Convolution convolution(group.dtype, kernels::Op::kConvTranspose, problem, w,
                                w ? Weights::kConstant : Weights::kOfRun, ArchFlags::host());
  return {convolution.nanoseconds(problem, w), onnxruntime_nanoseconds(problem), neighbour_nanoseconds(problem)};
}

// The Fourier transform that a node is, if it is one.
std::optional<SpectralLayer> spectral_layer(const Session& session, const SpectralNode& node) {
  try {
    return read_spectral(true, node, session.spectral.get());
  } catch (const Error&) {
    return std::nullopt;  // it is an ordinary one
  }
}

Decision require(const Session& session, const Node& node) {
  const Group group = read_group(node);
  const auto bias = group.bias ? numbers_of(group.bias) : std::vector<double>();
  const bool adds = !bias || std::any_of(bias->begin(), bias->end(), [](double value) { return value != 0; });
  const NodeAttributes attributes(node);
  if (spectral_layer(session, {node.stated_name(), attributes, group.dtype, group.w.constant(), adds})) {
    return {true, true};
  }
  return {true, false, estimates_of(group)};
}

OrtStatus* create(const Claim& claim, const Session& session, const OrtKernelInfo* info, void** kernel) {
  return create_kernel(claim.op_type, session.api, info, kernel, [&](const std::string& subject) {
    const OrtApi* const api = session.api;
    const auto x = input_type(api, info, 0), w = input_type(api, info, 1), b = input_type(api, info, 2);
    const auto constant = [&](size_t index) -> std::optional<TensorView> {
      const OrtValue* const value = constant_input(api, info, index);
      return value == nullptr ? std::nullopt : std::optional<TensorView>(view_of(api, value));
    };
    const std::optional<TensorView> weights = constant(1);
    if (!w || (!weights && !w->dims)) fail("the number of axes of its weights is not known.");
    const Shape w_dims = weights ? weights->dims.copy() : *w->dims;
    const auto dtype = static_cast<DataType>(w->type);
    const CreationAttributes attributes(api, info);
    const std::string name = name_of(api, info);
    if (session.spectral->find(name) && !b) {
      const auto layer = spectral_layer(session, {name, attributes, dtype, weights, false});
      if (layer) return make_stft_kernel(api, subject, dtype, layer->op, layer->attributes, layer->constants);
    }
    const ConvTranspose conv = read_conv_transpose(attributes, w_dims, dtype);
    ConvIndices at;
    at.x = 0, at.w = 1;
    if (b) at.b = 2;
    ConvInputs constants;
    constants.w = weights;
    if (b) constants.b = constant(2);
    const auto is_known = [](const TensorType& type) {
      return type.dims && std::all_of(type.dims->begin(), type.dims->end(), [](int64_t size) { return size >= 0; });
    };
    std::optional<Sizes> sizes;
    if (weights && x && is_known(*x) && (!b || is_known(*b))) {
      sizes.emplace();
      sizes->x = *x->dims;
      if (b) sizes->b = b->dims;
    }
    return make_standard_conv(session, subject, dtype, conv, at, constants, sizes);
  });
}

}  // namespace

Claim conv_transpose_claim(int first, int last) {
  return {"", "ConvTranspose", first, last, "T", {std::begin(kFloats), std::end(kFloats)}, require, create};
}

}  // namespace ortconv::ep
