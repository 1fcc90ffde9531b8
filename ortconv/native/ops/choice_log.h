// A file that says which implementation computes each node, and what the others were estimated to take.
#pragma once

#include <string>
#include <vector>

#include "base/problem.h"
#include "ops/implementations/work.h"

namespace ortconv {

// What an implementation is estimated to take.
struct LoggedEstimate {
  std::string name;
  double nanoseconds;
  implementations::Work work;
};

// Appends a line of JSON to the file of that name: the node, the sizes of the problem, the implementation that was
// chosen, and for each that can compute the problem the estimated nanoseconds and the work. Does nothing where the file
// cannot be written.
void log_choice(const std::string& file, const std::string& node, const ConvProblem& problem, const std::string& chosen,
                const std::vector<LoggedEstimate>& estimates);

}  // namespace ortconv
