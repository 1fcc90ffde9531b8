// Libraries that are loaded on first use, so that a machine without them never notices.
#pragma once

#include <string>

namespace ortconv::cuda {

// Null when the library cannot be loaded; `problem` then says why. Libraries stay loaded until the process ends.
void* open_library(const std::string& name, std::string* problem);

// Null when the library has no such function.
void* find_function(void* library, const char* name);

// The folder of the library that a function is of, with a separator at its end; empty when it is not known.
std::string folder_of(const void* function);

}  // namespace ortconv::cuda
