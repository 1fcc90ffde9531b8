// Converts a ConvProblem to kernel arguments and compilation options.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/params/convolution.h"
#include "cuda/plan/plan.h"

namespace ortconv::cuda {

// The value of the option ELEMENT for a floating-point type.
int element_of(DataType dtype);

// A program with these options and those for the element types.
ProgramKey program_for(const char* source, const Elements& elements, std::vector<std::string> options);

int64_t count_outputs(const ConvProblem& problem);

Problem describe(const Elements& elements, kernels::Op op, const ConvProblem& problem);

// Adds the pointers of a Problem that lies at offset `at` in the parameters.
void add_problem_pointers(size_t at, const Elements& elements, const Terms& terms, Launch* launch);

std::string option(const char* name, int64_t value);

// For a divisor from 1 to 2^31.
Divisor divisor(int64_t by);

template <class Params>
void set_params(const Params& params, Launch* launch) {
  launch->params.resize(sizeof params);
  std::memcpy(launch->params.data(), &params, sizeof params);
}

}  // namespace ortconv::cuda
