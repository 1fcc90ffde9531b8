#include "cuda/host/shared_library.h"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
#else
#include <dlfcn.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <string>
#include <vector>

#include "cuda/host/private_folder.h"

namespace ortconv::cuda {

namespace {

bool is_path(const std::string& name) { return name.find_first_of("\\/") != std::string::npos; }

std::string folder_of_path(const std::string& path) {
  const size_t end = path.find_last_of("\\/");
  return end == std::string::npos ? "" : path.substr(0, end + 1);
}

}  // namespace

#if defined(_WIN32)

void* open_library(const std::string& name, std::string* problem) {
  if (is_path(name) && !is_absolute(name)) {
    *problem = name + " is no absolute path";
    return nullptr;
  }
  // A library finds others that lie beside it.
  constexpr DWORD kBeside = LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR;
  const DWORD flags = LOAD_LIBRARY_SEARCH_DEFAULT_DIRS | (is_path(name) ? kBeside : 0);
  const HMODULE library = LoadLibraryExA(name.c_str(), nullptr, flags);
  if (library == nullptr) *problem = name + ": Windows error " + std::to_string(GetLastError());
  return reinterpret_cast<void*>(library);
}

bool may_search_current_folder() { return false; }

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

namespace {

void* opened(const std::string& path, std::string* problem) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const text = dlerror();
    *problem = text != nullptr ? text : path;
  }
  return library;
}

// Where dlopen looks for a name without a folder, before the system's own table: an empty or relative entry of
// LD_LIBRARY_PATH, of when the process began, is one below the current folder.
std::vector<std::string> searched_folders() {
  std::vector<std::string> folders;
#if defined(__GLIBC__)
  // Only the dynamic linker's own answer counts: the variable may have changed since.
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&open_library), &self) == 0) return folders;
  void* handle = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) handle = dlopen(nullptr, RTLD_LAZY);  // this is the program itself
  Dl_serinfo size;
  if (handle == nullptr || dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) != 0) return folders;
  std::vector<Dl_serinfo> memory(size.dls_size / sizeof(Dl_serinfo) + 1);
  Dl_serinfo* const all = memory.data();
  if (dlinfo(handle, RTLD_DI_SERINFOSIZE, all) == 0 && dlinfo(handle, RTLD_DI_SERINFO, all) == 0) {
    for (unsigned i = 0; i < all->dls_cnt; ++i) folders.emplace_back(all->dls_serpath[i].dls_name);
  }
  dlclose(handle);
#endif
  return folders;
}

}  // namespace

bool may_search_current_folder() {
  const std::vector<std::string> folders = searched_folders();
  return !std::all_of(folders.begin(), folders.end(), is_absolute);
}

void* open_library(const std::string& name, std::string* problem) {
  if (is_path(name)) {
    if (is_absolute(name)) return opened(name, problem);
    *problem = name + " is no absolute path";
    return nullptr;
  }
  if (!may_search_current_folder()) return opened(name, problem);
  // One that is loaded already is found under its name, without a search.
  if (void* const loaded = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return loaded;
  for (const std::string& folder : searched_folders()) {
    const std::string path = folder + '/' + name;
    if (is_absolute(folder) && access(path.c_str(), F_OK) == 0) return opened(path, problem);
  }
  *problem = name + ": in no absolute folder of those that are searched (LD_LIBRARY_PATH has a relative one)";
  return nullptr;
}

void* find_function(void* library, const char* name) { return dlsym(library, name); }

std::string folder_of(const void* function) {
  Dl_info info;
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? folder_of_path(info.dli_fname) : "";
}

#endif

}  // namespace ortconv::cuda
