#include "ep/spectral.h"

#include <algorithm>

#include "base/error.h"
#include "ep/claims.h"
#include "ep/numbers.h"
#include "ep/spectral_screen.h"

namespace ortconv::ep {
namespace {

// Filters of one signal, tap by tap, if so many are looked at.
std::optional<Filters> filters_of(const SpectralNode& node) {
  const bool is_float = node.dtype == DataType::kFloat || node.dtype == DataType::kFloat16;
  if (!node.weights || !is_float) return std::nullopt;
  const Shape dims = node.weights->dims.copy();
  if (dims.size() != 3 || dims[1] != 1 || dims[0] < kLeastFilters || dims[2] < kLeastTaps) return std::nullopt;
  if (node.attributes.integer("group").value_or(1) != 1) return std::nullopt;
  const auto dilations = node.attributes.integers("dilations");
  if (dilations && *dilations != std::vector<int64_t>{1}) return std::nullopt;
  if (!may_be_basis(node.dtype, dims[0], dims[2], node.weights->data)) return std::nullopt;
  Filters filters{node.dtype, dims[0], dims[2], {}};
  with_type(node.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const data = static_cast<const T*>(node.weights->data);
    for (int64_t i = 0; i < dims[0] * dims[2]; ++i) filters.data.push_back(to_double(data[i]));
  });
  return filters;
}

// The diagonal of filters that are zero elsewhere, with which frames are added up; empty where they are others.
std::vector<double> diagonal_of(const Filters& filters) {
  if (filters.count != filters.taps) return {};
  std::vector<double> diagonal;
  for (int64_t row = 0; row < filters.count; ++row) {
    for (int64_t j = 0; j < filters.taps; ++j) {
      const double value = filters.data[row * filters.taps + j];
      if (row == j) diagonal.push_back(value);
      if (row != j && value != 0) return {};
    }
  }
  const auto is_finite = [](double value) { return std::abs(value) <= std::numeric_limits<double>::max(); };
  const bool is_window = std::all_of(diagonal.begin(), diagonal.end(), is_finite) &&
                         std::any_of(diagonal.begin(), diagonal.end(), [](double value) { return value != 0; });
  return is_window ? diagonal : std::vector<double>();
}

// Stride and paddings of a Conv; those of a ConvTranspose are read as its own.
StftAttributes geometry_of(bool is_transposed, const SpectralNode& node) {
  StftAttributes found;
  if (is_transposed) {
    const ConvTranspose conv = read_conv_transpose(node.attributes, node.weights->dims.copy(), node.dtype);
    if (!conv.output_shape.empty()) fail("its padding follows from an output_shape");
    found.hop = conv.attributes.strides[0];
    found.begin = conv.attributes.pads[0], found.end = conv.attributes.pads[1];
    found.output_padding = conv.attributes.output_padding[0];
    return found;
  }
  const std::string rule = node.attributes.text("auto_pad").value_or("NOTSET");
  if (rule != "NOTSET" && rule != "VALID") fail("auto_pad = ", rule);
  const std::vector<int64_t> pads = node.attributes.integers("pads").value_or(std::vector<int64_t>{0, 0});
  found.hop = node.attributes.integers("strides").value_or(std::vector<int64_t>{1}).at(0);
  if (rule == "NOTSET") found.begin = pads.at(0), found.end = pads.at(1);
  if (found.hop < 1 || found.begin < 0 || found.end < 0) {
    fail("its stride is ", found.hop, ", its padding ", to_string(pads));
  }
  return found;
}

Decision require_conv(const Session& session, const Node& node) {
  const NodeAttributes attributes(node);
  const Value w = node.input(1);
  const auto weights = w ? w.constant() : std::nullopt;
  if (!weights) return {false};
  const auto bias = node.input(2) ? numbers_of(node.input(2)) : std::vector<double>();
  const bool adds = !bias || std::any_of(bias->begin(), bias->end(), [](double value) { return value != 0; });
  const SpectralNode found{node.stated_name(), attributes, static_cast<DataType>(w.type().type), weights, adds};
  return {read_spectral(false, found, session.spectral.get()).has_value(), true};
}

OrtStatus* create_conv(const Claim& claim, const Session& session, const OrtKernelInfo* info, void** kernel) {
  return create_kernel(claim.op_type, session.api, info, kernel, [&](const std::string& subject) {
    const CreationAttributes attributes(session.api, info);
    const OrtValue* const w = constant_input(session.api, info, 1);
    const DataType dtype = static_cast<DataType>(input_type(session.api, info, 1)->type);
    const SpectralNode node{name_of(session.api, info), attributes, dtype, view_of(session.api, w), false};
    const auto layer = read_spectral(false, node, session.spectral.get());
    if (!layer) fail("its filters are not those of a Fourier transform.");
    return make_stft_kernel(session.api, subject, dtype, layer->op, layer->attributes, layer->constants);
  });
}

}  // namespace

void SpectralNodes::insert(const std::string& name, const Basis& basis) {
  const std::lock_guard<std::mutex> lock(mutex_);
  bases_[name] = basis;
}

std::optional<Basis> SpectralNodes::find(const std::string& name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = bases_.find(name);
  return found == bases_.end() ? std::nullopt : std::optional<Basis>(found->second);
}

std::optional<SpectralLayer> read_spectral(bool is_transposed, const SpectralNode& node, SpectralNodes* known) {
  const auto filters = filters_of(node);
  if (!filters) return std::nullopt;
  SpectralLayer layer{FourierOp::kOverlapAdd, {}, {}};
  if (is_transposed) layer.constants.window = diagonal_of(*filters);
  if (layer.constants.window.empty()) {
    const double limit = distance_limit(node.dtype);
    std::optional<Basis> basis = known->find(node.name);
    // Nodes may have no names, or the same ones.
    if (basis && basis->gains.size() * static_cast<size_t>(filters->taps) == filters->data.size() &&
        basis->window.size() == static_cast<size_t>(filters->taps)) {
      basis = complete_basis(*filters, basis->n_fft, basis->parts, basis->window);
    } else {
      basis.reset();
    }
    if (!basis || basis->distance > limit) basis = fit_basis(*filters);
    if (!basis) return std::nullopt;
    if (!(basis->distance <= limit)) {
      fail("its filters resemble those of a Fourier transform, n_fft ", basis->n_fft, ", and are none: they differ by ",
           basis->distance, " of their largest element (limit ", limit, ")");
    }
    known->insert(node.name, *basis);
    layer.op = is_transposed ? FourierOp::kInverse : FourierOp::kForward;
    layer.constants.window = basis->window, layer.constants.gains = basis->gains;
    layer.attributes.n_fft = basis->n_fft, layer.attributes.parts = basis->parts;
  }
  if (node.adds) fail("its filters are those of a Fourier transform, and it has a bias");
  const StftAttributes geometry = geometry_of(is_transposed, node);
  layer.attributes.hop = geometry.hop;
  layer.attributes.begin = geometry.begin, layer.attributes.end = geometry.end;
  layer.attributes.output_padding = geometry.output_padding;
  return layer;
}

Claim conv_claim(int first, int last) {
  return {"", "Conv", first, last, "T", {DataType::kFloat, DataType::kFloat16}, require_conv, create_conv};
}

}  // namespace ortconv::ep
