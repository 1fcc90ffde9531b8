// PTX of device sources, by NVIDIA's own compiler.
#pragma once

#include <string>
#include <vector>

#include "testing/ptx/program.h"

namespace ortconv::cuda::ptx {

// The program for a compute capability, compiled unless an earlier run of the tests has left it. The compiler runs in a
// process of its own: this one may have a fake under its name.
const Program& compile(const std::string& text, const std::vector<std::string>& options, int sm);

}  // namespace ortconv::cuda::ptx
