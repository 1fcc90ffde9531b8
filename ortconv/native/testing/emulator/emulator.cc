#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "base/error.h"
#include "testing/emulator/fibers.h"
#include "testing/gpu/run.h"

namespace ortconv::cuda::emulator {
namespace {

constexpr size_t kWarp = 32;

using Kernel = void (*)(const void* params);

struct Copy {
  void* to;
  const void* from;
  size_t bytes, valid;

  void happen() const {
    std::memcpy(to, from, valid);
    std::memset(static_cast<char*>(to) + valid, 0, bytes - valid);
  }
};

struct Thread {
  enum class State { kRunning, kAtBarrier, kAtCollective } state = State::kRunning;
  const char* collective = nullptr;
  void* argument = nullptr;
  void (*apply)(void* const*) = nullptr;
  std::deque<std::vector<Copy>> groups = {{}};  // of copies; the last one is not committed yet
};

// One block at a time.
class Block {
 public:
  Block(const Launch& launch, const Choices& choices, Kernel kernel)
      : launch_(launch), choices_(choices), kernel_(kernel), random_(choices.order) {
    const uint64_t count = uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
    if (count == 0 || count > 1024) fail("a block of ", count, " threads");
    if (launch.grid[0] > 0x7fffffffu || launch.grid[1] > 0xffff || launch.grid[2] > 0xffff) fail("the grid is too big");
    if (uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2] == 0) fail("the grid is empty");
    if (launch.params.size() > 4096) fail("the parameters take ", launch.params.size(), " bytes");
    static std::map<uint64_t, std::unique_ptr<Fibers>> pools;
    std::unique_ptr<Fibers>& pool = pools[count];
    if (pool == nullptr) pool = std::make_unique<Fibers>(count);
    fibers_ = pool.get();
    warps_.resize((count + kWarp - 1) / kWarp);
    std::iota(warps_.begin(), warps_.end(), 0);
    runtime_.block_size = {launch.block[0], launch.block[1], launch.block[2]};
    runtime_.grid_size = {launch.grid[0], launch.grid[1], launch.grid[2]};
    runtime_.barrier = [] { current->wait(Thread::State::kAtBarrier); };
    runtime_.collective = [](const char* name, void* argument, void (*apply)(void* const*)) {
      Thread& thread = current->thread();
      thread.collective = name, thread.argument = argument, thread.apply = apply;
      current->wait(Thread::State::kAtCollective);
    };
    runtime_.copy_async = [](void* to, const void* from, size_t bytes, size_t valid) {
      const Copy copy{to, from, bytes, valid};
      if (current->choices_.late_copies) {
        current->thread().groups.back().push_back(copy);
      } else {
        copy.happen();
      }
    };
    runtime_.commit = [] { current->thread().groups.emplace_back(); };
    runtime_.wait = [](int pending) {
      auto& groups = current->thread().groups;
      while (groups.size() > static_cast<size_t>(pending) + 1) {
        for (const Copy& copy : groups.front()) copy.happen();
        groups.pop_front();
      }
    };
    runtime_.trap = [](const char* why) { current->stop(why); };
  }

  const Runtime* runtime() const { return &runtime_; }

  void run(unsigned x, unsigned y, unsigned z) {
    current = this;
    runtime_.block = {x, y, z};
    // Of exactly the size asked for, so that AddressSanitizer sees what goes beyond, and full of NaN.
    std::unique_ptr<unsigned char, void (*)(void*)> shared(nullptr, std::free);
    if (launch_.shared_bytes > 0) {
      void* memory = nullptr;
      if (posix_memalign(&memory, 128, launch_.shared_bytes) != 0) fail("out of memory");
      shared.reset(static_cast<unsigned char*>(memory));
      std::memset(shared.get(), 0xff, launch_.shared_bytes);
    }
    runtime_.shared = shared.get();
    threads_.assign(fibers_->size(), Thread());
    fibers_->start([](size_t) { current->kernel_(current->launch_.params.data()); });
    while (advance()) {
    }
    if (!why_.empty()) {
      fail(launch_.function, ", block ", x, ' ', y, ' ', z, ", thread ", fibers_->current(), ": ", why_);
    }
  }

 private:
  Thread& thread() { return threads_[fibers_->current()]; }

  void wait(Thread::State state) {
    thread().state = state;
    fibers_->pause();
  }

  // The fiber is left as it is, so nothing on its stack may own memory.
  void stop(const char* why) {
    why_ = why;
    fibers_->pause();  // for good
  }

  // Runs each warp as far as it comes without the others, then the barrier; false when all is over. So a warp that
  // needs no barrier to go on is far ahead of the next, which finds out barriers that are missing.
  bool advance() {
    if (choices_.order != 0) std::shuffle(warps_.begin(), warps_.end(), random_);
    for (size_t warp : warps_) {
      do {
        run_warp(warp * kWarp);
      } while (why_.empty() && release_warp(warp * kWarp));
      if (!why_.empty()) return false;
    }
    size_t finished = 0, at_barrier = 0;
    for (size_t i = 0; i < fibers_->size(); ++i) {
      finished += fibers_->finished(i);
      at_barrier += !fibers_->finished(i) && threads_[i].state == Thread::State::kAtBarrier;
    }
    if (finished == fibers_->size()) return false;
    if (at_barrier != fibers_->size()) {
      why_ = describe("a barrier that ", at_barrier, " of ", fibers_->size(), " threads reach");
      return false;
    }
    for (Thread& thread : threads_) thread.state = Thread::State::kRunning;
    return true;
  }

  // Runs every thread of a warp that can run.
  void run_warp(size_t first) {
    size_t lanes[kWarp];
    std::iota(lanes, lanes + kWarp, first);
    if (choices_.order != 0) std::shuffle(lanes, lanes + kWarp, random_);
    for (size_t i : lanes) {
      if (i >= fibers_->size() || fibers_->finished(i) || threads_[i].state != Thread::State::kRunning) continue;
      const auto index = static_cast<unsigned>(i);
      const Dim& size = runtime_.block_size;
      runtime_.thread = {index % size.x, index / size.x % size.y, index / size.x / size.y};
      fibers_->resume(i);
      if (!why_.empty()) return;
    }
  }

  // Lets a warp go on whose lanes have all come to the same instruction.
  bool release_warp(size_t first) {
    const size_t end = std::min(first + kWarp, fibers_->size());
    size_t waiting = 0;
    const char* name = nullptr;
    for (size_t i = first; i < end; ++i) {
      if (fibers_->finished(i) || threads_[i].state != Thread::State::kAtCollective) continue;
      ++waiting;
      name = threads_[i].collective;
    }
    if (waiting == 0) return false;
    void* arguments[kWarp];
    for (size_t i = first; i < end; ++i) {
      const bool here = !fibers_->finished(i) && threads_[i].state == Thread::State::kAtCollective;
      if (!here || end - first != kWarp || std::strcmp(threads_[i].collective, name) != 0) {
        why_ = describe("not all lanes of a warp are at ", name);
        return false;
      }
      arguments[i - first] = threads_[i].argument;
    }
    threads_[first].apply(arguments);
    for (size_t i = first; i < end; ++i) threads_[i].state = Thread::State::kRunning;
    return true;
  }

  template <class... Parts>
  static std::string describe(const Parts&... parts) {
    std::ostringstream text;
    (text << ... << parts);
    return text.str();
  }

  static Block* current;

  const Launch& launch_;
  const Choices& choices_;
  const Kernel kernel_;
  std::mt19937 random_;
  Fibers* fibers_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<size_t> warps_;
  Runtime runtime_{};
  std::string why_;
};

Block* Block::current = nullptr;

// The program's library, compiled unless an earlier run of the tests has left it.
void* load(const std::string& text, const std::vector<std::string>& options) {
  std::string command = ORTCONV_EMULATOR_COMPILER;
  for (const std::string& option : options) command += ' ' + option;
  std::ifstream device(ORTCONV_EMULATOR_INCLUDE "/testing/emulator/device.h");
  const std::string header((std::istreambuf_iterator<char>(device)), std::istreambuf_iterator<char>());
  const size_t key = std::hash<std::string>()(command + header + text);
  static std::map<size_t, void*> loaded;
  if (const auto found = loaded.find(key); found != loaded.end()) return found->second;

  const std::string stem = std::string(ORTCONV_EMULATOR_FOLDER "/program_") + std::to_string(key);
  const std::string library = stem + ".so";
  if (!std::ifstream(library).good()) {
    // Under names of this process until it is whole: tests that run at the same time may want the same program.
    const std::string own = stem + '_' + std::to_string(getpid());
    std::ofstream(own + ".cc") << "#include \"testing/emulator/device.h\"\n" << text;
    command += " -shared -o " + own + ".so " + own + ".cc";
    if (std::system(command.c_str()) != 0) fail("does not compile: ", command);
    if (std::rename((own + ".so").c_str(), library.c_str()) != 0) fail("cannot write ", library);
    std::remove((own + ".cc").c_str());
  }
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) fail(dlerror());
  return loaded[key] = handle;
}

template <class Function>
Function symbol(void* library, const std::string& name) {
  void* const found = dlsym(library, name.c_str());
  if (found == nullptr) fail("the program has no function ", name);
  return reinterpret_cast<Function>(found);
}

}  // namespace

// What is read and written is checked by AddressSanitizer, where the tests are built with it.
void run_text(const std::string& text, const std::vector<std::string>& options, int, const Launch& launch,
              ptx::GlobalMemory&, const Choices& choices) {
  void* const library = load(text, options);
  Block block(launch, choices, symbol<Kernel>(library, launch.function));
  symbol<void (*)(const Runtime*)>(library, "ortconv_attach")(block.runtime());
  const uint64_t blocks = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  for (uint64_t i = 0; i < blocks; ++i) {
    const uint64_t b = choices.order % 2 == 0 ? i : blocks - 1 - i;
    block.run(static_cast<unsigned>(b % launch.grid[0]), static_cast<unsigned>(b / launch.grid[0] % launch.grid[1]),
              static_cast<unsigned>(b / launch.grid[0] / launch.grid[1]));
  }
}

}  // namespace ortconv::cuda::emulator
