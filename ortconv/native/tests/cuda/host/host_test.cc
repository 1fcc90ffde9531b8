// What surrounds the kernels of the CUDA provider: finding driver and compiler, and keeping programs on the disk. Each
// state of a machine is a process of its own, for libraries stay loaded.
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/recently_used.h"
#include "cuda/host/disk_cache.h"
#include "cuda/host/error.h"
#include "cuda/host/gpu.h"
#include "testing/fake_cuda/fake_cuda.h"
#include "testing/new_folder.h"
#include "testing/test.h"

namespace ortconv::cuda {
namespace {

using test::new_folder;

const std::string kFakes = ORTCONV_FAKE_CUDA_FOLDER;

// What fn returns, or the message of the DeviceError that it throws, in a child process.
std::string in_child(const std::function<std::string()>& fn) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    std::string text;
    try {
      text = fn();
    } catch (const DeviceError& error) {
      text = error.what();
    }
    const auto written = write(ends[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t bytes = 0; (bytes = read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(bytes));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : "the process died";
}

template <class Function>
Function* fake(const char* name) {
  void* const library = dlopen((kFakes + "/libcuda.so.1").c_str(), RTLD_NOW | RTLD_GLOBAL);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

// Makes this process one with a GPU, and with an NVRTC unless it is told otherwise.
void have_gpu(const FakeGpu& gpu, const char* nvrtc = "13020") {
  fake<void(const FakeGpu*)>("fake_configure")(&gpu);
  if (nvrtc == nullptr) return;
  setenv("ORTCONV_FAKE_NVRTC", nvrtc, 1);
  add_nvrtc_candidate(kFakes + "/libnvrtc.so.13");
}

constexpr FakeGpu kA100 = {80, 108, 163 << 10, 13020};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(no_driver) {
  if (dlopen("libcuda.so.1", RTLD_NOW) != nullptr) {
    std::printf("     no_driver: this machine has a driver\n");
    return;
  }
  const std::string text = in_child([] { return Gpu::get(0), "found"; });
  EXPECT(has(text, "there is no NVIDIA driver: libcuda.so.1: ") && has(text, "Install NVIDIA's driver"), text);
}

TEST(a_driver_without_the_functions) {
  const std::string text = in_child([] {
    dlopen((kFakes + "/bare/libcuda.so.1").c_str(), RTLD_NOW | RTLD_GLOBAL);
    return Gpu::get(0), "found";
  });
  EXPECT(has(text, "libcuda.so.1 is too old: it has no cuDriverGetVersion. Update NVIDIA's driver"), text);
}

TEST(an_old_driver) {
  const std::string text = in_child([] {
    have_gpu({80, 1, 163 << 10, 11080});
    return Gpu::get(0), "found";
  });
  EXPECT(has(text, "NVIDIA's driver is for CUDA 11.8; allowed: 12.0 or newer. Update"), text);
}

TEST(a_driver_that_fails_is_asked_again) {
  const std::string text = in_child([] {
    have_gpu(kA100);
    fake<void(const char*, int, int)>("fake_fail")("cuInit", 100, 0);
    std::string first;
    try {
      Gpu::get(0);
    } catch (const DeviceError& error) {
      first = error.what();
    }
    return first + std::to_string(Gpu::get(0).device().sm);
  });
  EXPECT(has(text, "cuInit fails with CUDA_ERROR_NO_DEVICE (100)") && has(text, "CUDA_VISIBLE_DEVICES"), text);
  EXPECT(text.substr(text.size() - 2) == "80", text);
}

TEST(an_old_gpu) {
  const std::string text = in_child([] {
    have_gpu({70, 80, 96 << 10, 12040}, "12040");
    return Gpu::get(0), "found";
  });
  EXPECT(text == "GPU 0, Fake 70, has compute capability 7.0; allowed: 7.5 or newer. Use ONNX Runtime's CPU provider.",
         text);
}

TEST(a_gpu_that_is_not_there) {
  const std::string text = in_child([] {
    have_gpu(kA100);
    return Gpu::get(1000), "found";
  });
  EXPECT(has(text, "cuDeviceGet fails with"), text);
}

TEST(what_a_gpu_is) {
  const std::string text = in_child([] {
    have_gpu({120, 170, 99 << 10, 13020});
    const Device& device = Gpu::get(0).device();
    return test::describe(device.sm, ' ', device.multiprocessors, ' ', device.shared_bytes);
  });
  EXPECT(text == test::describe("120 170 ", 99 << 10), text);
}

TEST(no_compiler) {
  for (const bool new_driver : {true, false}) {
    const std::string text = in_child([new_driver] {
      have_gpu({80, 1, 163 << 10, new_driver ? 13020 : 12080}, nullptr);
      add_nvrtc_candidate("/nowhere/libnvrtc.so.13");
      return Gpu::get(0), "found";
    });
    if (text == "found") {
      std::printf("     no_compiler: this machine has an NVRTC\n");
      continue;
    }
    EXPECT(has(text, "NVRTC is missing, or none that is there can be used: /nowhere/libnvrtc.so.13: "), text);
    EXPECT(has(text, new_driver ? "pip install nvidia-cuda-nvrtc, or let ORTCONV_NVRTC name"
                                : "pip install nvidia-cuda-nvrtc-cu12, or let ORTCONV_NVRTC name"),
           text);
  }
}

TEST(the_compiler_that_the_environment_names) {
  for (const bool right : {true, false}) {
    const std::string text = in_child([right] {
      have_gpu(kA100, nullptr);
      setenv("ORTCONV_NVRTC", right ? (kFakes + "/libnvrtc.so.13").c_str() : "/nowhere/libnvrtc.so", 1);
      return Gpu::get(0), "found";
    });
    EXPECT(right ? text == "found"
                 : has(text, "NVRTC cannot be used from where ORTCONV_NVRTC says: /nowhere/libnvrtc.so: "),
           text);
  }
}

TEST(a_compiler_below_the_current_folder) {
  for (const char* const name : {"libnvrtc.so.13", "./libnvrtc.so.13"}) {
    const std::string text = in_child([name] {
      have_gpu(kA100, nullptr);
      if (chdir(kFakes.c_str()) != 0) return std::string("no folder");
      setenv("ORTCONV_NVRTC", name, 1);
      return Gpu::get(0), std::string("found");
    });
    EXPECT(has(text, "NVRTC cannot be used from where ORTCONV_NVRTC says: "), name, ": ", text);
  }
}

TEST(what_is_no_compiler) {
  const std::string text = in_child([] {
    have_gpu(kA100, nullptr);
    setenv("ORTCONV_NVRTC", (kFakes + "/libcuda.so.1").c_str(), 1);
    return Gpu::get(0), "found";
  });
  EXPECT(has(text, "libcuda.so.1 has no nvrtcGetPTX"), text);
}

TEST(a_compiler_that_is_newer_than_the_driver) {
  const std::string text = in_child([] {
    have_gpu({80, 1, 163 << 10, 12080}, nullptr);
    setenv("ORTCONV_NVRTC", (kFakes + "/libnvrtc.so.13").c_str(), 1);
    return Gpu::get(0), "found";
  });
  EXPECT(has(text, "is of CUDA 13.2, which is newer than the driver's 12.8"), text);
}

TEST(every_failure_of_the_compilers_start) {
  for (const char* const function : {"nvrtcVersion", "nvrtcGetNumSupportedArchs", "nvrtcGetSupportedArchs"}) {
    const std::string text = in_child([function] {
      have_gpu(kA100, nullptr);
      setenv("ORTCONV_FAKE_NVRTC", (std::string("13020 ") + function + " 9").c_str(), 1);
      setenv("ORTCONV_NVRTC", (kFakes + "/libnvrtc.so.13").c_str(), 1);
      return Gpu::get(0), "found";
    });
    EXPECT(has(text, "libnvrtc.so.13 does not tell"), function, ": ", text);
  }
}

TEST(devices_that_the_compiler_does_not_know) {
  const auto target = [](int sm) {
    return in_child([sm] {
      have_gpu(kA100, "13020 none 0 80 90 100");
      const Target found = Nvrtc::get(13020).target_for(sm);
      return found.option + (found.intermediate ? " PTX" : "");
    });
  };
  EXPECT(target(90) == "-arch=sm_90", target(90));
  EXPECT(target(103) == "-arch=compute_100 PTX", target(103));
  EXPECT(target(86) == "-arch=compute_80 PTX", target(86));
  EXPECT(has(target(75), "NVRTC 13.2 does not compile for compute capability 7.5 any more"), target(75));
}

// Programs.

const ProgramKey kProgram = {"direct", {"-DACTIVATE=0", "-DELEMENT=0"}};

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  FILE* const listing = popen(("ls " + folder).c_str(), "r");
  char line[256];
  while (std::fgets(line, sizeof line, listing) != nullptr) {
    files.push_back(folder + '/' + std::string(line, std::string(line).find('\n')));
  }
  pclose(listing);
  return files;
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

// Loads the program in a new process; returns whether it was compiled, which a compiler that fails cannot.
std::string load(const std::string& folder, bool compiles, const FakeGpu& gpu = kA100) {
  return in_child([&] {
    setenv("ORTCONV_CUDA_CACHE", folder.c_str(), 1);
    have_gpu(gpu, compiles ? "13020" : "13020 nvrtcCompileProgram 6");
    Gpu& found = Gpu::get(0);
    const Gpu::Current current(found);
    return std::string(found.function(kProgram, "direct", 0) != nullptr ? "loaded" : "nothing");
  });
}

TEST(a_program_is_compiled_once) {
  const std::string folder = new_folder() + "/deep/folder";
  EXPECT(has(load(folder, false), "does not compile direct.cu for -arch=sm_80"), load(folder, false));
  EXPECT(load(folder, true) == "loaded", load(folder, true));
  EXPECT(files_in(folder).size() == 1, files_in(folder).size());
  EXPECT(load(folder, false) == "loaded", load(folder, false));
  // Another device, another driver: another program.
  EXPECT(has(load(folder, false, {90, 132, 227 << 10, 13020}), "does not compile"), "another device");
  EXPECT(has(load(folder, false, {80, 108, 163 << 10, 13030}), "does not compile"), "another driver");
}

TEST(what_is_damaged_is_compiled_again) {
  const std::string folder = new_folder();
  EXPECT(load(folder, true) == "loaded", folder);
  const std::string file = files_in(folder).at(0), good = content(file);
  std::string flipped = good;
  flipped[good.size() - 5] ^= 1;
  std::string other_key = good;
  other_key[100] ^= 1;
  const std::string damaged[] = {
      "", "x", good.substr(0, good.size() / 2), good.substr(0, good.size() - 1), good + "x", flipped, other_key};
  for (const std::string& data : damaged) {
    std::ofstream(file, std::ios::binary) << data;
    EXPECT(has(load(folder, false), "does not compile"), data.size());
    EXPECT(load(folder, true) == "loaded", data.size());
    EXPECT(content(file) == good, data.size());
  }
}

// What the file says is right, but the driver does not take it.
TEST(what_the_driver_refuses_is_compiled_again) {
  const std::string folder = new_folder();
  const std::string text = in_child([&] {
    setenv("ORTCONV_CUDA_CACHE", folder.c_str(), 1);
    have_gpu(kA100);
    const auto fail_once = fake<void(const char*, int, int)>("fake_fail");
    std::string found;
    for (int device = 0; device < 2; ++device) {
      Gpu& gpu = Gpu::get(device);
      const Gpu::Current current(gpu);
      if (device == 1) fail_once("cuModuleLoadData", 200, 0);
      found += gpu.function(kProgram, "direct", 0) != nullptr ? " loaded" : " nothing";
    }
    return found;
  });
  EXPECT(text == " loaded loaded", text);
  EXPECT(load(folder, false) == "loaded", "kept again");
  // A new image that the driver does not take is the end.
  const std::string refused = in_child([&] {
    setenv("ORTCONV_CUDA_CACHE", "off", 1);
    have_gpu(kA100);
    Gpu& gpu = Gpu::get(0);
    const Gpu::Current current(gpu);
    fake<void(const char*, int, int)>("fake_fail")("cuModuleLoadData", 222, 0);
    return gpu.function(kProgram, "direct", 0), "loaded";
  });
  EXPECT(has(refused, "refuses what NVRTC 13.2 makes of direct.cu with -arch=sm_80 (error 222). Update the driver"),
         refused);
}

TEST(without_a_folder_nothing_is_kept) {
  EXPECT(load("off", true) == "loaded", "off");
  EXPECT(load("/proc/nowhere", true) == "loaded", "a folder that cannot be made");
  const DiskCache cache("/proc/nowhere");
  cache.write("key", "value");
  EXPECT(!cache.read("key"), "read");
}

TEST(where_the_folder_is) {
  const auto folder = [](const char* variable, const char* value) {
    return in_child([&] {
      for (const char* name : {"ORTCONV_CUDA_CACHE", "XDG_CACHE_HOME", "HOME"}) unsetenv(name);
      if (variable != nullptr) setenv(variable, value, 1);
      return DiskCache::from_environment().folder();
    });
  };
  EXPECT(folder("ORTCONV_CUDA_CACHE", "/there") == "/there", folder("ORTCONV_CUDA_CACHE", "/there"));
  EXPECT(folder("ORTCONV_CUDA_CACHE", "off").empty(), "off");
  EXPECT(folder("ORTCONV_CUDA_CACHE", "there") == "ORTCONV_CUDA_CACHE is 'there'; allowed: an absolute path, or off.",
         folder("ORTCONV_CUDA_CACHE", "there"));
  EXPECT(folder("XDG_CACHE_HOME", "c").empty() && folder("HOME", "h").empty(), "relative");
  EXPECT(folder("XDG_CACHE_HOME", "/c") == "/c/ortconv/cuda", folder("XDG_CACHE_HOME", "/c"));
  EXPECT(folder("HOME", "/h") == "/h/.cache/ortconv/cuda", folder("HOME", "/h"));
  EXPECT(folder(nullptr, nullptr).empty(), "nowhere");
}

// Some write and some read the same entries at once: a reader sees a whole value or none.
TEST(processes_and_threads_share_a_folder) {
  const std::string folder = new_folder();
  const auto value_of = [](int i) { return std::string(20000 + 1000 * i, static_cast<char>('a' + i)); };
  const auto work = [&] {
    const DiskCache cache(folder);
    int wrong = 0;
    for (int i = 0; i < 150; ++i) {
      const int entry = i % 3;
      const std::string key = "key " + std::to_string(entry);
      if (i % 2 == 0) cache.write(key, value_of(entry));
      const auto found = cache.read(key);
      wrong += found && *found != value_of(entry);
      wrong += i % 2 == 0 && !found;
    }
    return std::to_string(wrong);
  };
  std::vector<std::string> results(4);
  std::vector<std::thread> threads;
  for (std::string& result : results) {
    threads.emplace_back([&] {
      std::string in_thread = work();
      result = in_thread;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& result : results) EXPECT(result == "0", "threads: ", result);

  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(work() == "0" ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT(status == 0, "processes: ", status);
  }
  EXPECT(files_in(folder).size() == 3, "no temporary files are left: ", files_in(folder).size());
}

// The file that ORTCONV_TEST_NVRTC names: what the fake one cannot tell.
TEST(a_real_compiler) {
  const char* const file = std::getenv("ORTCONV_TEST_NVRTC");
  if (file == nullptr) {
    std::printf("     a_real_compiler: not tested, ORTCONV_TEST_NVRTC names none\n");
    return;
  }
  const std::string text = in_child([file] {
    setenv("ORTCONV_NVRTC", file, 1);
    const Nvrtc& nvrtc = Nvrtc::get(1000000);  // any release will do
    std::string found;
    for (const int sm : {75, 80, 90, 100, 120}) {
      found += has(nvrtc.compile(kProgram, source_of(kProgram), nvrtc.target_for(sm)), "direct") ? '1' : '0';
    }
    return found;
  });
  EXPECT(text == "11111", text);
}

TEST(shared_memory_is_asked_for_once) {
  const std::string text = in_child([] {
    setenv("ORTCONV_CUDA_CACHE", "off", 1);
    have_gpu(kA100);
    Gpu& gpu = Gpu::get(0);
    const Gpu::Current current(gpu);
    fake<void()>("fake_clear_log")();
    for (const size_t bytes : {size_t{1} << 10, size_t{100} << 10, size_t{90} << 10, size_t{120} << 10}) {
      gpu.function(kProgram, "direct", bytes);
    }
    std::string log = fake<const char*()>("fake_log")();
    int calls = 0;
    for (size_t at = 0; (at = log.find("cuFuncSetAttribute direct 8", at)) != std::string::npos; ++at) ++calls;
    return std::to_string(calls);
  });
  EXPECT(text == "2", text);
}

TEST(one_compilation_for_many_threads) {
  const std::string text = in_child([] {
    setenv("ORTCONV_CUDA_CACHE", "off", 1);
    have_gpu(kA100);
    Gpu& gpu = Gpu::get(0);
    fake<void()>("fake_clear_log")();
    std::vector<Function> found(4);
    std::vector<std::thread> threads;
    for (Function& function : found) {
      threads.emplace_back([&] {
        const Gpu::Current current(gpu);
        function = gpu.function(kProgram, "direct", 0);
      });
    }
    for (std::thread& thread : threads) thread.join();
    const std::string log = fake<const char*()>("fake_log")();
    const size_t first = log.find("cuModuleLoadData");
    const bool once = first != std::string::npos && log.find("cuModuleLoadData", first + 1) == std::string::npos;
    const bool same = found[0] == found[1] && found[1] == found[2] && found[2] == found[3];
    return std::string(once && same ? "once" : "more");
  });
  EXPECT(text == "once", text);
}

TEST(recently_used_forgets_what_was_not_used_for_longest) {
  RecentlyUsed<int, int> table(3);
  for (int i = 0; i < 3; ++i) table.insert(i, std::make_shared<const int>(10 * i));
  EXPECT(*table.find(0) == 0, "0");
  const auto held = table.find(1);
  EXPECT(*table.find(2) == 20 && *table.find(0) == 0, "2, 0");
  table.insert(3, std::make_shared<const int>(30));
  EXPECT(table.find(1) == nullptr && *held == 10, "1 is forgotten, but held");
  EXPECT(table.find(0) != nullptr && table.find(2) != nullptr && *table.find(3) == 30, "the others");
}

}  // namespace
}  // namespace ortconv::cuda
