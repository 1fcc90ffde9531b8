#include "ep/graph.h"

#include <cstring>
#include <memory>

#include "base/error.h"
#include "ort/abi/boundary.h"

namespace ortconv::ep {
namespace {

// A text that a slot gives.
template <class Slot, class Subject>
std::string text_of(const OrtApi* api, const Subject* subject) {
  const char* text = nullptr;
  invoke<Slot>(api, subject, &text);
  return text == nullptr ? "" : text;
}

template <class Slot, class Subject>
bool flag_of(const OrtApi* api, const Subject* subject) {
  bool flag = false;
  invoke<Slot>(api, subject, &flag);
  return flag;
}

template <class Count, class Get>
std::vector<Value> values_of(const OrtApi* api, const OrtNode* node) {
  size_t count = 0;
  invoke<Count>(api, node, &count);
  std::vector<const OrtValueInfo*> infos(count);
  if (count != 0) invoke<Get>(api, node, infos.data(), count);
  std::vector<Value> values;
  for (const OrtValueInfo* info : infos) values.emplace_back(api, info);
  return values;
}

// Whether a call succeeds; what it says otherwise is dropped.
template <class Slot, class... Args>
bool succeeds(const OrtApi* api, Args... args) {
  OrtStatus* const status = Slot::call(api, args...);
  if (status != nullptr) abi::ReleaseStatus::call(api, status);
  return status == nullptr;
}

TensorType tensor_type(const OrtApi* api, const OrtTypeInfo* type) {
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  if (type != nullptr) invoke<abi::CastTypeInfoToTensorInfo>(api, type, &tensor);
  TensorType found;
  if (tensor == nullptr) return found;
  size_t rank = 0;
  invoke<abi::GetTensorElementType>(api, tensor, &found.type);
  invoke<abi::GetDimensionsCount>(api, tensor, &rank);
  if (rank == 0) return found;  // a scalar, or of unknown rank
  found.dims.emplace(rank);
  invoke<abi::GetDimensions>(api, tensor, found.dims->data(), rank);
  std::vector<const char*> names(rank);
  invoke<abi::GetSymbolicDimensions>(api, tensor, names.data(), rank);
  for (const char* name : names) found.names.emplace_back(name == nullptr ? "" : name);
  return found;
}

}  // namespace

std::string Value::name() const { return text_of<abi::GetValueInfoName>(api_, info_); }

TensorType Value::type() const {
  const OrtTypeInfo* type = nullptr;
  invoke<abi::GetValueInfoTypeInfo>(api_, info_, &type);
  return tensor_type(api_, type);
}

std::optional<TensorView> Value::constant() const {
  if (info_ == nullptr || !flag_of<abi::ValueInfoIsConstantInitializer>(api_, info_)) return std::nullopt;
  const OrtValue* tensor = nullptr;
  invoke<abi::ValueInfoGetInitializerValue>(api_, info_, &tensor);
  if (tensor == nullptr) return std::nullopt;
  return view_of(api_, tensor);
}

bool Value::is_graph_output() const { return flag_of<abi::ValueInfoIsGraphOutput>(api_, info_); }

std::optional<Node> Value::producer() const {
  // Of an input of a fused node's graph ONNX Runtime would log a warning.
  if (flag_of<abi::ValueInfoIsRequiredGraphInput>(api_, info_)) return std::nullopt;
  const OrtNode* node = nullptr;
  invoke<abi::ValueInfoGetProducer>(api_, info_, &node, static_cast<size_t*>(nullptr));
  if (node == nullptr) return std::nullopt;
  return Node(api_, node);
}

std::vector<Node> Value::consumers() const {
  size_t count = 0;
  invoke<abi::ValueInfoGetNumConsumers>(api_, info_, &count);
  std::vector<const OrtNode*> found(count);
  std::vector<int64_t> inputs(count);
  if (count != 0) invoke<abi::ValueInfoGetConsumers>(api_, info_, found.data(), inputs.data(), count);
  std::vector<Node> nodes;
  for (const OrtNode* node : found) nodes.emplace_back(api_, node);
  return nodes;
}

size_t Node::id() const {
  size_t id = 0;
  invoke<abi::NodeGetId>(api_, node_, &id);
  return id;
}

std::string Node::stated_name() const { return text_of<abi::NodeGetName>(api_, node_); }

std::string Node::name() const {
  const std::string name = stated_name();
  if (!name.empty()) return name;
  const std::vector<Value> results = outputs();
  return results.empty() || !results.front() ? name : results.front().name();
}

std::string Node::op_type() const { return text_of<abi::NodeGetOperatorType>(api_, node_); }

std::string Node::domain() const {
  const std::string domain = text_of<abi::NodeGetDomain>(api_, node_);
  return domain == "ai.onnx" ? "" : domain;
}

int Node::since_version() const {
  int version = 0;
  invoke<abi::NodeGetSinceVersion>(api_, node_, &version);
  return version;
}

std::string Node::provider() const { return text_of<abi::NodeGetEpName>(api_, node_); }

std::vector<Value> Node::inputs() const { return values_of<abi::NodeGetNumInputs, abi::NodeGetInputs>(api_, node_); }

Value Node::input(size_t index) const {
  const std::vector<Value> all = inputs();
  return index < all.size() ? all[index] : Value();
}

std::vector<Value> Node::outputs() const { return values_of<abi::NodeGetNumOutputs, abi::NodeGetOutputs>(api_, node_); }

std::vector<Node> nodes_of(const OrtApi* api, const OrtGraph* graph) {
  size_t count = 0;
  invoke<abi::GraphGetNumNodes>(api, graph, &count);
  std::vector<const OrtNode*> found(count);
  if (count != 0) invoke<abi::GraphGetNodes>(api, graph, found.data(), count);
  std::vector<Node> nodes;
  nodes.reserve(count);
  for (const OrtNode* node : found) nodes.emplace_back(api, node);
  return nodes;
}

std::optional<std::string> NodeAttributes::read(const char* name, int type) const {
  const OrtOpAttr* attribute = nullptr;
  if (!succeeds<abi::NodeGetAttributeByName>(node_.api(), node_.get(), name, &attribute) || attribute == nullptr) {
    return std::nullopt;
  }
  size_t bytes = 0;  // the call without a buffer fails, and tells them
  succeeds<abi::ReadOpAttr>(node_.api(), attribute, type, static_cast<void*>(nullptr), size_t{0}, &bytes);
  std::string data(bytes, '\0');
  if (bytes != 0) invoke<abi::ReadOpAttr>(node_.api(), attribute, type, static_cast<void*>(&data[0]), bytes, &bytes);
  data.resize(bytes);
  return data;
}

std::optional<int64_t> NodeAttributes::integer(const char* name) const {
  const auto data = read(name, abi::kAttrInt);
  if (!data || data->size() != sizeof(int64_t)) return std::nullopt;
  int64_t value = 0;
  std::memcpy(&value, data->data(), sizeof value);
  return value;
}

std::optional<float> NodeAttributes::number(const char* name) const {
  const auto data = read(name, abi::kAttrFloat);
  if (!data || data->size() != sizeof(float)) return std::nullopt;
  float value = 0;
  std::memcpy(&value, data->data(), sizeof value);
  return value;
}

std::optional<std::string> NodeAttributes::text(const char* name) const {
  auto data = read(name, abi::kAttrString);
  if (data && !data->empty() && data->back() == '\0') data->pop_back();
  return data;
}

std::optional<std::vector<int64_t>> NodeAttributes::integers(const char* name) const {
  const auto data = read(name, abi::kAttrInts);
  if (!data) return std::nullopt;
  std::vector<int64_t> values(data->size() / sizeof(int64_t));
  if (!values.empty()) std::memcpy(values.data(), data->data(), values.size() * sizeof(int64_t));
  return values;
}

std::optional<int64_t> CreationAttributes::integer(const char* name) const {
  int64_t value = 0;
  if (!succeeds<abi::KernelInfoGetAttributeInt>(api_, info_, name, &value)) return std::nullopt;
  return value;
}

std::optional<float> CreationAttributes::number(const char* name) const {
  float value = 0;
  if (!succeeds<abi::KernelInfoGetAttributeFloat>(api_, info_, name, &value)) return std::nullopt;
  return value;
}

std::optional<std::string> CreationAttributes::text(const char* name) const {
  size_t size = 0;
  if (!succeeds<abi::KernelInfoGetAttributeString>(api_, info_, name, static_cast<char*>(nullptr), &size)) {
    return std::nullopt;
  }
  std::string value(size, '\0');
  invoke<abi::KernelInfoGetAttributeString>(api_, info_, name, &value[0], &size);
  value.resize(size - 1);  // without the NUL
  return value;
}

std::optional<std::vector<int64_t>> CreationAttributes::integers(const char* name) const {
  size_t count = 0;
  if (!succeeds<abi::KernelInfoGetAttributeInts>(api_, info_, name, static_cast<int64_t*>(nullptr), &count)) {
    return std::nullopt;
  }
  std::vector<int64_t> values(count);
  if (count != 0) invoke<abi::KernelInfoGetAttributeInts>(api_, info_, name, values.data(), &count);
  return values;
}

std::optional<TensorType> input_type(const OrtApi* api, const OrtKernelInfo* info, size_t index) {
  size_t count = 0;
  invoke<abi::KernelInfoGetInputCount>(api, info, &count);
  OrtTypeInfo* raw = nullptr;
  if (index >= count || !succeeds<abi::KernelInfoGetInputTypeInfo>(api, info, index, &raw)) return std::nullopt;
  const auto release = [api](OrtTypeInfo* type) { abi::ReleaseTypeInfo::call(api, type); };
  const std::unique_ptr<OrtTypeInfo, decltype(release)> type(raw, release);
  return tensor_type(api, raw);
}

}  // namespace ortconv::ep
