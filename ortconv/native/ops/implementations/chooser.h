// Chooses what computes the runs of a node: of the implementations that can, the one that is estimated to be fastest.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/implementations/implementation.h"

namespace ortconv::implementations {

// An entry of the list that computes runs of a node.
struct Candidate {
  const Entry* entry;
  std::unique_ptr<Implementation> implementation;
};

// What a run may hold.
struct Values {
  bool any_weights;  // infinities and NaN among the weights
  bool any_src;      // a src that some implementations refuse
};

struct Estimate {
  const Candidate* candidate;
  Work work;
  double nanoseconds;
};

// Immutable after creation: concurrent runs may share it.
class Chooser {
 public:
  // `preferred` is the name of the implementation that computes all runs that it can; empty: the fastest one does.
  Chooser(const Node& node, std::string preferred);

  // The implementation of a run. Neither src nor dst is empty.
  const Candidate& choose(const ConvProblem& problem, Values values) const;
  // That of a name; null if it cannot compute the run.
  const Candidate* find(const std::string& name, const ConvProblem& problem, Values values) const;

  // What a run by a candidate of this chooser is estimated to take; 0 if it cannot compute the run.
  double nanoseconds(const Candidate& candidate, const ConvProblem& problem) const;
  // The estimates of all implementations that can compute a run, in the order of the list.
  std::vector<Estimate> estimates(const ConvProblem& problem, Values values) const;

 private:
  const Node node_;
  const std::string preferred_;
  std::vector<Candidate> candidates_;
};

}  // namespace ortconv::implementations
