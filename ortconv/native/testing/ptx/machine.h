// Carries out a launch of a PTX function.
//
// The lanes of a warp go on together as long as they take the same branches, then apart, those that are behind first,
// until they meet again. An instruction of a whole warp wants all of its lanes to be there. A value that was never
// written may be copied and computed with, but nothing may depend on it: no branch, no address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "testing/gpu/global_memory.h"
#include "testing/ptx/program.h"

namespace ortconv::cuda::ptx {

constexpr int kWarpLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;

struct Grid {
  uint32_t blocks[3], threads[3];
  size_t shared_bytes;
  std::vector<unsigned char> params;
};

class Block;

class Warp {
 public:
  Warp(const Function& function, Block& block, uint32_t index);

  // Begins another block.
  void start();
  // Goes on until all lanes are at a barrier or at the end; false at the end.
  bool run();
  void leave_barrier();

  // The values of all lanes, of which those outside of `defined` mean nothing.
  template <class T>
  const T* values(const Operand& operand) const {
    return reinterpret_cast<const T*>(registers_.data() + operand.at);
  }
  uint32_t predicate(const Operand& operand) const { return *values<uint32_t>(operand); }
  uint32_t defined(const Operand& operand) const { return defined_[operand.number]; }

  template <class T>
  void set(const Operand& operand, const T (&result)[kWarpLanes], uint32_t lanes, uint32_t defined) {
    T* const to = reinterpret_cast<T*>(registers_.data() + operand.at);
    if (lanes == kAllLanes) {
      std::memcpy(to, result, sizeof result);
    } else {
      for (int lane = 0; lane < kWarpLanes; ++lane) {
        if ((lanes >> lane & 1) != 0) to[lane] = result[lane];
      }
    }
    set_defined(operand, lanes, defined);
  }
  void set_predicate(const Operand& operand, uint32_t result, uint32_t lanes, uint32_t defined) {
    uint32_t* const to = reinterpret_cast<uint32_t*>(registers_.data() + operand.at);
    *to = (*to & ~lanes) | (result & lanes);
    set_defined(operand, lanes, defined);
  }

  // The addresses that lanes use; an error where one is not defined.
  void addresses(const Instruction& instruction, int operand, int which, uint32_t lanes,
                 uint64_t (&result)[kWarpLanes]) const;
  // Of an operand that something depends on.
  void expect_defined(const Operand& operand, uint32_t lanes, const char* what) const;

  Block& block() const { return block_; }
  uint32_t thread(int lane) const { return index_ * kWarpLanes + static_cast<uint32_t>(lane); }
  size_t local_bytes() const { return function_.local_bytes; }
  size_t param_bytes() const { return function_.param_bytes; }
  unsigned char* local(int lane) { return local_.data() + static_cast<size_t>(lane) * function_.local_bytes; }
  Accesses& local_accesses(int lane) { return local_accesses_[static_cast<size_t>(lane)]; }

  // An asynchronous copy that was begun; it belongs to the last group of its lane.
  struct Copy {
    size_t to;
    uint64_t from;
    size_t bytes, valid_bytes;
  };
  std::deque<std::vector<Copy>>& copies(int lane) { return copies_[static_cast<size_t>(lane)]; }

  // Throws Error with the place in the program.
  template <class... Parts>
  [[noreturn]] void stop(int lane, const Parts&... parts) const;

 private:
  void set_defined(const Operand& operand, uint32_t lanes, uint32_t defined) {
    uint32_t& known = defined_[operand.number];
    known = (known & ~lanes) | (defined & lanes);
  }
  // The lanes that are farthest behind, and how far they may go before others have to.
  uint32_t choose(uint32_t* counter, uint32_t* limit) const;
  [[noreturn]] void stop_at(int lane, const std::string& why) const;

  const Function& function_;
  Block& block_;
  const uint32_t index_;
  uint32_t existing_;  // lanes
  std::vector<unsigned char> registers_, local_;
  std::vector<uint32_t> defined_;
  std::vector<Accesses> local_accesses_;
  std::deque<std::vector<Copy>> copies_[kWarpLanes];
  uint32_t counters_[kWarpLanes];  // of the instruction that comes next
  uint32_t running_ = 0, waiting_ = 0;
  const Instruction* current_ = nullptr;
};

class Block {
 public:
  Block(const Program& program, const Function& function, const std::string& name, const Grid& grid,
        GlobalMemory& memory);

  // Warps take turns in an order that depends on `order`.
  void run(uint64_t number, unsigned order);

  const Grid& grid() const { return grid_; }
  GlobalMemory& global() const { return memory_; }
  User user(uint32_t thread) const { return User(launch_, number_, epoch_, thread); }
  unsigned char* shared() { return shared_.data(); }
  Accesses& shared_accesses() { return shared_accesses_; }
  // The coordinates of the block.
  uint32_t at(int axis) const { return at_[axis]; }
  std::string describe(const Instruction* instruction, uint32_t thread) const;

 private:
  const Program& program_;
  const std::string name_;
  const Grid& grid_;
  GlobalMemory& memory_;
  const uint64_t launch_;
  uint64_t number_ = 0, epoch_ = 0;
  uint32_t at_[3] = {0, 0, 0};
  std::vector<unsigned char> shared_;
  Accesses shared_accesses_;
  std::deque<Warp> warps_;
};

template <class... Parts>
void Warp::stop(int lane, const Parts&... parts) const {
  std::string why;
  ((why += parts), ...);
  stop_at(lane, why);
}

// Runs all blocks.
void launch(const Program& program, const std::string& function, const Grid& grid, GlobalMemory& memory,
            unsigned order);

}  // namespace ortconv::cuda::ptx
