#include "ops/implementations/chooser.h"

#include <algorithm>
#include <utility>

namespace ortconv::implementations {

Chooser::Chooser(const Node& node, std::string preferred) : node_(node), preferred_(std::move(preferred)) {
  for (const Entry& entry : list()) {
    if (auto implementation = entry.make(node)) candidates_.push_back({&entry, std::move(implementation)});
  }
}

double Chooser::nanoseconds(const Candidate& candidate, const ConvProblem& problem) const {
  const std::optional<Work> work = candidate.implementation->work(problem);
  return work ? estimate(candidate.entry->way, *work, node_.dtype, node_.arch) : 0;
}

std::vector<Estimate> Chooser::estimates(const ConvProblem& problem, Values values) const {
  std::vector<Estimate> found;
  for (const Candidate& candidate : candidates_) {
    const Entry& entry = *candidate.entry;
    if ((values.any_weights && !entry.any_weights) || (values.any_src && !entry.any_src)) continue;
    const std::optional<Work> work = candidate.implementation->work(problem);
    if (work) found.push_back({&candidate, *work, estimate(entry.way, *work, node_.dtype, node_.arch)});
  }
  return found;
}

const Candidate& Chooser::choose(const ConvProblem& problem, Values values) const {
  if (const Candidate* preferred = find(preferred_, problem, values)) return *preferred;
  if (node_.arch.winograd == Winograd::kAlways) {
    for (const char* name : {"winograd", "winograd_separate"}) {
      if (const Candidate* filtering = find(name, problem, values)) return *filtering;
    }
  }
  const std::vector<Estimate> all = estimates(problem, values);
  const auto faster = [](const Estimate& a, const Estimate& b) { return a.nanoseconds < b.nanoseconds; };
  return *std::min_element(all.begin(), all.end(), faster)->candidate;
}

const Candidate* Chooser::find(const std::string& name, const ConvProblem& problem, Values values) const {
  if (name.empty()) return nullptr;
  for (const Estimate& each : estimates(problem, values)) {
    if (each.candidate->entry->name == name) return each.candidate;
  }
  return nullptr;
}

}  // namespace ortconv::implementations
