#include "cuda/host/shared_library.h"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace ortconv::cuda {

namespace {

std::string folder_of_path(const std::string& path) {
  const size_t end = path.find_last_of("\\/");
  return end == std::string::npos ? "" : path.substr(0, end + 1);
}

}  // namespace

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

std::string folder_of(const void* function) {
  constexpr DWORD kFlags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  HMODULE library = nullptr;
  char path[MAX_PATH];
  if (GetModuleHandleExA(kFlags, static_cast<const char*>(function), &library) == 0) return "";
  const DWORD length = GetModuleFileNameA(library, path, MAX_PATH);
  return length == MAX_PATH ? "" : folder_of_path(std::string(path, length));
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

std::string folder_of(const void* function) {
  Dl_info info;
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? folder_of_path(info.dli_fname) : "";
}

#endif

}  // namespace ortconv::cuda
