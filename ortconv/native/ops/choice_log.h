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

// A text as JSON has it.
std::string quoted(const std::string& text);

// Appends a line to a file, if that can be written. One line at a time: several sessions may write to the same file.
void append_line(const std::string& file, const std::string& line);

// Appends a line of JSON to the file of that name: the node, the sizes of the problem, the implementation that was
// chosen, and for each that can compute the problem the estimated nanoseconds and the work.
void log_choice(const std::string& file, const std::string& node, const ConvProblem& problem, const std::string& chosen,
                const std::vector<LoggedEstimate>& estimates);

}  // namespace ortconv
