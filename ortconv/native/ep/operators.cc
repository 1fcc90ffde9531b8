// The operators of org.ortconv, which a model holds as functions: where one is not claimed, its body is computed.
#include "ort/operators.h"

#include <set>
#include <string>

#include "base/error.h"
#include "ep/claims.h"

namespace ortconv::ep {
namespace {

// The element type of each input; 0 where it is absent.
using Types = std::vector<int>;

// Whether an operator takes inputs of these types.
bool takes(const OrtCustomOp* op, const Types& types) {
  const size_t count = op->GetInputTypeCount(op);
  if (types.size() > count) return false;
  for (size_t i = 0; i < count; ++i) {
    const int type = i < types.size() ? types[i] : 0;
    const bool is_optional = op->GetInputCharacteristic(op, i) == abi::kOptional;
    if (type == 0 ? !is_optional : type != op->GetInputType(op, i)) return false;
  }
  return true;
}

const OrtCustomOp* find_operator(const Session& session, const std::string& name, const Types& types) {
  for (const auto& op : session.operators) {
    if (op->GetName(op.get()) == name && takes(op.get(), types)) return op.get();
  }
  return nullptr;
}

Decision require_kernel(const Session& session, const Node& node) {
  Types types;
  for (const Value& value : node.inputs()) types.push_back(value ? value.type().type : 0);
  if (find_operator(session, node.op_type(), types) != nullptr) return {};
  fail("there is no kernel for element types ", to_string(std::vector<int64_t>(types.begin(), types.end())));
}

OrtStatus* create(const Claim& claim, const Session& session, const OrtKernelInfo* info, void** kernel) {
  const OrtCustomOp* op = nullptr;
  OrtStatus* const status = guarded(session.api, kDomain, [&] {
    size_t count = 0;
    invoke<abi::KernelInfoGetInputCount>(session.api, info, &count);
    Types types;
    for (size_t i = 0; i < count; ++i) {
      const auto type = input_type(session.api, info, i);
      types.push_back(type ? type->type : 0);
    }
    op = find_operator(session, claim.op_type, types);
    if (op == nullptr) fail("there is no kernel for the element types of a ", claim.op_type);
  });
  return status != nullptr ? status : op->CreateKernelV2(op, session.api, info, kernel);
}

}  // namespace

std::vector<Claim> operator_claims() {
  std::set<std::string> names;
  for (const auto& op : operators(nullptr, {})) names.insert(op->GetName(op.get()));
  std::vector<Claim> claims;
  for (const std::string& name : names) {
    claims.push_back({kDomain, name, 1, 1, nullptr, {}, require_kernel, create});
  }
  return claims;
}

}  // namespace ortconv::ep
