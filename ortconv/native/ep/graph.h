// Graphs as ONNX Runtime shows them to providers. Everything is borrowed, and lives as long as the call in which ONNX
// Runtime shows it. All of this throws Error when ONNX Runtime reports one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "ep/abi.h"
#include "ops/conv_params.h"
#include "ort/abi/tensors.h"

namespace ortconv::ep {

class Node;

// What is stated of a tensor before runs. Sizes are negative where they are not known; names are empty or those of
// symbolic dimensions.
struct TensorType {
  int type = 0;
  std::optional<Shape> dims;  // none: not even the rank is known
  std::vector<std::string> names;
};

class Value {
 public:
  Value() = default;
  Value(const OrtApi* api, const OrtValueInfo* info) : api_(api), info_(info) {}

  explicit operator bool() const { return info_ != nullptr; }  // false: an optional input that is absent
  bool operator==(const Value& other) const { return info_ == other.info_ || (info_ && name() == other.name()); }

  std::string name() const;
  TensorType type() const;
  // Its elements, if no run can change them.
  std::optional<TensorView> constant() const;
  bool is_graph_output() const;
  std::optional<Node> producer() const;
  // The nodes that read it, each as often as it does.
  std::vector<Node> consumers() const;

 private:
  const OrtApi* api_ = nullptr;
  const OrtValueInfo* info_ = nullptr;
};

class Node {
 public:
  Node(const OrtApi* api, const OrtNode* node) : api_(api), node_(node) {}

  const OrtNode* get() const { return node_; }
  bool operator==(const Node& other) const { return id() == other.id(); }

  size_t id() const;
  std::string name() const;         // of its first output where it has none
  std::string stated_name() const;  // may be empty
  std::string op_type() const;
  std::string domain() const;
  int since_version() const;
  std::string provider() const;  // that has it already; empty: none
  bool is(const char* standard_op_type) const { return domain().empty() && op_type() == standard_op_type; }

  std::vector<Value> inputs() const;  // trailing ones that are absent may be missing
  Value input(size_t index) const;    // none where it is absent
  std::vector<Value> outputs() const;

  const OrtApi* api() const { return api_; }

 private:
  const OrtApi* api_;
  const OrtNode* node_;
};

std::vector<Node> nodes_of(const OrtApi* api, const OrtGraph* graph);

// Attributes that a standard operator may have or not; none where it has not.
class StandardAttributes {
 public:
  virtual ~StandardAttributes() = default;
  virtual std::optional<int64_t> integer(const char* name) const = 0;
  virtual std::optional<float> number(const char* name) const = 0;
  virtual std::optional<std::string> text(const char* name) const = 0;
  virtual std::optional<std::vector<int64_t>> integers(const char* name) const = 0;
};

// Those of a node of a graph.
class NodeAttributes : public StandardAttributes {
 public:
  explicit NodeAttributes(const Node& node) : node_(node) {}
  std::optional<int64_t> integer(const char* name) const override;
  std::optional<float> number(const char* name) const override;
  std::optional<std::string> text(const char* name) const override;
  std::optional<std::vector<int64_t>> integers(const char* name) const override;

 private:
  // The bytes of an attribute of a type.
  std::optional<std::string> read(const char* name, int type) const;

  Node node_;
};

// Those of a node whose kernel is created.
class CreationAttributes : public StandardAttributes {
 public:
  CreationAttributes(const OrtApi* api, const OrtKernelInfo* info) : api_(api), info_(info) {}
  std::optional<int64_t> integer(const char* name) const override;
  std::optional<float> number(const char* name) const override;
  std::optional<std::string> text(const char* name) const override;
  std::optional<std::vector<int64_t>> integers(const char* name) const override;

 private:
  const OrtApi* api_;
  const OrtKernelInfo* info_;
};

// What ONNX Runtime states of an input of a node whose kernel is created; none where the input is absent.
std::optional<TensorType> input_type(const OrtApi* api, const OrtKernelInfo* info, size_t index);

}  // namespace ortconv::ep
