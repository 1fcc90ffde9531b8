// Libraries that are loaded on first use, so that a machine without them never notices.
#pragma once

#include <string>

namespace ortconv::cuda {

// Opens an absolute path, or a name without a folder where the system looks for libraries; the current folder, and what
// is relative to it, is never looked into. Null when the library cannot be loaded; `problem` then says why. Libraries
// stay loaded until the process ends.
void* open_library(const std::string& name, std::string* problem);

// Whether a library that looks for another one by its name may find it below the current folder.
bool may_search_current_folder();

// Null when the library has no such function.
void* find_function(void* library, const char* name);

// The folder of the library that a function is of, with a separator at its end; empty when it is not known.
std::string folder_of(const void* function);

}  // namespace ortconv::cuda
