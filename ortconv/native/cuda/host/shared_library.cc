#include "cuda/host/shared_library.h"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace ortconv::cuda {

#if defined(_WIN32)

void* open_library(const std::string& name, std::string* problem) {
  // The altered path lets a library find others that lie beside it; it is meant for full paths only.
  const bool is_path = name.find_first_of("\\/") != std::string::npos;
  const HMODULE library = LoadLibraryExA(name.c_str(), nullptr, is_path ? LOAD_WITH_ALTERED_SEARCH_PATH : 0);
  if (library == nullptr) *problem = name + ": Windows error " + std::to_string(GetLastError());
  return reinterpret_cast<void*>(library);
}

void* find_function(void* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(reinterpret_cast<HMODULE>(library), name));
}

#else

void* open_library(const std::string& name, std::string* problem) {
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const text = dlerror();
    *problem = text != nullptr ? text : name;
  }
  return library;
}

void* find_function(void* library, const char* name) { return dlsym(library, name); }

#endif

}  // namespace ortconv::cuda
