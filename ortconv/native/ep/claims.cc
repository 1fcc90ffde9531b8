#include "ep/claims.h"

#include <utility>

namespace ortconv::ep {

const std::vector<Claim>& claims() {
  static const auto& all = *[] {
    auto* const made = new std::vector<Claim>;
    // A kernel is found only if the version in which a node's operator was defined lies in its range.
    for (const auto& [first, last] : {std::pair(1, 10), std::pair(11, 21), std::pair(22, 22)}) {
      made->push_back(conv_transpose_claim(first, last));
      made->push_back(conv_claim(first, last));
    }
    for (Claim& claim : fourier_claims()) made->push_back(std::move(claim));
    for (Claim& claim : operator_claims()) made->push_back(std::move(claim));
    return made;
  }();
  return all;
}

const Claim* find_claim(const Node& node) {
  const std::string op_type = node.op_type();
  for (const Claim& claim : claims()) {
    if (claim.op_type != op_type || claim.domain != node.domain()) continue;
    const int version = node.since_version();
    if (claim.first <= version && version <= claim.last) return &claim;
  }
  return nullptr;
}

}  // namespace ortconv::ep
