#include "testing/ptx/machine.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "base/error.h"
#include "testing/ptx/operations.h"

namespace ortconv::cuda::ptx {
namespace {

uint64_t product(const uint32_t (&sizes)[3]) { return uint64_t{sizes[0]} * sizes[1] * sizes[2]; }

void check_limits(const Function& function, const Grid& grid) {
  const uint64_t threads = product(grid.threads);
  if (threads == 0 || threads > function.most_threads) fail("blocks of ", threads, " threads");
  if (product(grid.blocks) == 0 || grid.blocks[0] > 0x7fffffffu || grid.blocks[1] > 0xffff || grid.blocks[2] > 0xffff) {
    fail("a grid of ", grid.blocks[0], " by ", grid.blocks[1], " by ", grid.blocks[2], " blocks");
  }
  if (grid.params.size() < function.param_bytes) {
    fail(grid.params.size(), " bytes of parameters, not ", function.param_bytes);
  }
}

uint32_t special_value(const std::string& name, const Block& block, uint32_t thread) {
  const Grid& grid = block.grid();
  const uint32_t in_block[] = {thread % grid.threads[0], thread / grid.threads[0] % grid.threads[1],
                               thread / grid.threads[0] / grid.threads[1]};
  for (int axis = 0; axis < 3; ++axis) {
    const std::string end = std::string(".") + "xyz"[axis];
    if (name == "%tid" + end) return in_block[axis];
    if (name == "%ntid" + end) return grid.threads[axis];
    if (name == "%ctaid" + end) return block.at(axis);
    if (name == "%nctaid" + end) return grid.blocks[axis];
  }
  fail("an unknown register ", name);
}

}  // namespace

Warp::Warp(const Function& function, Block& block, uint32_t index)
    : function_(function),
      block_(block),
      index_(index),
      registers_(function.register_bytes),
      local_(function.local_bytes * kWarpLanes),
      defined_(function.registers),
      local_accesses_(kWarpLanes, Accesses(function.local_bytes, false)) {
  const uint64_t left = product(block.grid().threads) - uint64_t{index} * kWarpLanes;
  existing_ = left >= kWarpLanes ? kAllLanes : (1u << left) - 1;
}

void Warp::start() {
  std::fill(defined_.begin(), defined_.end(), 0);
  for (const Function::Initial& initial : function_.initial) {
    unsigned char* const to = registers_.data() + initial.operand.at;
    defined_[initial.operand.number] = kAllLanes;
    if (initial.type == 'p') {
      *reinterpret_cast<uint32_t*>(to) = initial.bits != 0 ? kAllLanes : 0;
      continue;
    }
    const size_t bytes = bytes_of_type(initial.type);
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const uint64_t bits =
          initial.special.empty() ? initial.bits : special_value(initial.special, block_, thread(lane));
      std::memcpy(to + static_cast<size_t>(lane) * bytes, &bits, bytes);
    }
  }
  for (Accesses& accesses : local_accesses_) accesses = Accesses(function_.local_bytes, false);
  for (auto& groups : copies_) groups.assign(1, {});
  std::fill(counters_, counters_ + kWarpLanes, 0);
  running_ = existing_;
  waiting_ = 0;
}

uint32_t Warp::choose(uint32_t* counter, uint32_t* limit) const {
  uint32_t lanes = 0;
  *counter = *limit = ~0u;
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    if ((running_ >> lane & 1) == 0) continue;
    const uint32_t at = counters_[lane];
    if (at < *counter) {
      *limit = *counter;
      *counter = at;
      lanes = 1u << lane;
    } else if (at == *counter) {
      lanes |= 1u << lane;
    } else {
      *limit = std::min(*limit, at);
    }
  }
  return lanes;
}

bool Warp::run() {
  while ((running_ | waiting_) != 0) {
    if (running_ == 0) {
      // All that are left wait for each other.
      int first = 0;
      while ((waiting_ >> first & 1) == 0) ++first;
      const Instruction& instruction = function_.code[counters_[first]];
      current_ = &instruction;
      for (int lane = 0; lane < kWarpLanes; ++lane) {
        const bool here = (waiting_ >> lane & 1) != 0 && counters_[lane] == counters_[first];
        if (here == ((existing_ >> lane & 1) != 0)) continue;
        stop(first, "not all lanes of the warp come to this instruction: lane ", std::to_string(lane), " does not");
      }
      if (instruction.kind == Kind::kBarrier) return true;
      instruction.execute(*this, instruction, existing_);
      leave_barrier();
    }
    uint32_t counter = 0, limit = 0;
    const uint32_t lanes = choose(&counter, &limit);
    uint32_t active = lanes;
    while (counter < limit) {
      if (counter >= function_.code.size()) fail("the end of the function without a return");
      const Instruction& instruction = function_.code[counter];
      current_ = &instruction;
      active = lanes;
      if (instruction.guarded) {
        expect_defined(instruction.guard, lanes, "a branch or predicate");
        active &= instruction.guard_negated ? ~predicate(instruction.guard) : predicate(instruction.guard);
      }
      if (instruction.kind != Kind::kPlain) break;
      if (active != 0) instruction.execute(*this, instruction, active);
      ++counter;
    }
    const bool special = counter < limit;
    const Kind kind = special ? function_.code[counter].kind : Kind::kPlain;
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const uint32_t bit = 1u << lane;
      if ((lanes & bit) == 0) continue;
      counters_[lane] = special && kind != Kind::kCollective && kind != Kind::kBarrier ? counter + 1 : counter;
      if (special && kind == Kind::kBranch && (active & bit) != 0) counters_[lane] = function_.code[counter].target;
    }
    if (kind == Kind::kReturn) running_ &= ~active;
    if (kind == Kind::kCollective || kind == Kind::kBarrier) {
      if (active != lanes) stop(0, "a predicate on an instruction of the whole warp");
      running_ &= ~lanes;
      waiting_ |= lanes;
    }
  }
  return false;
}

void Warp::leave_barrier() {
  for (int lane = 0; lane < kWarpLanes; ++lane) ++counters_[lane];
  running_ = waiting_;
  waiting_ = 0;
}

void Warp::addresses(const Instruction& instruction, int operand, int which, uint32_t lanes,
                     uint64_t (&result)[kWarpLanes]) const {
  const Operand& base = instruction.operands[operand];
  expect_defined(base, lanes, "an address");
  const int64_t offset = instruction.offsets[which];
  if (instruction.narrow[which]) {
    const uint32_t* const from = values<uint32_t>(base);
    for (int lane = 0; lane < kWarpLanes; ++lane) result[lane] = static_cast<uint64_t>(from[lane] + offset);
  } else {
    const uint64_t* const from = values<uint64_t>(base);
    for (int lane = 0; lane < kWarpLanes; ++lane) result[lane] = from[lane] + static_cast<uint64_t>(offset);
  }
}

void Warp::expect_defined(const Operand& operand, uint32_t lanes, const char* what) const {
  const uint32_t undefined = lanes & ~defined(operand);
  if (undefined == 0) return;
  int lane = 0;
  while ((undefined >> lane & 1) == 0) ++lane;
  stop(lane, what, " depends on a value that was never written");
}

void Warp::stop_at(int lane, const std::string& why) const { fail(block_.describe(current_, thread(lane)), ": ", why); }

Block::Block(const Program& program, const Function& function, const std::string& name, const Grid& grid,
             GlobalMemory& memory)
    : program_(program),
      name_(name),
      grid_(grid),
      memory_(memory),
      launch_(memory.next_launch()),
      shared_(grid.shared_bytes),
      shared_accesses_(grid.shared_bytes, false) {
  const auto warps = static_cast<uint32_t>((product(grid.threads) + kWarpLanes - 1) / kWarpLanes);
  for (uint32_t i = 0; i < warps; ++i) warps_.emplace_back(function, *this, i);
}

void Block::run(uint64_t number, unsigned order) {
  number_ = number;
  epoch_ = 0;
  at_[0] = static_cast<uint32_t>(number % grid_.blocks[0]);
  at_[1] = static_cast<uint32_t>(number / grid_.blocks[0] % grid_.blocks[1]);
  at_[2] = static_cast<uint32_t>(number / grid_.blocks[0] / grid_.blocks[1]);
  shared_accesses_ = Accesses(grid_.shared_bytes, false);
  std::vector<size_t> turns(warps_.size());
  std::iota(turns.begin(), turns.end(), 0);
  std::mt19937 random(order);
  for (Warp& warp : warps_) warp.start();
  for (;; ++epoch_) {
    if (order != 0) std::shuffle(turns.begin(), turns.end(), random);
    size_t at_barrier = 0;
    for (const size_t i : turns) at_barrier += warps_[i].run();
    if (at_barrier == 0) return;
    if (at_barrier != warps_.size()) {
      fail(name_, ": a barrier that only ", at_barrier, " of ", warps_.size(), " warps come to");
    }
    for (Warp& warp : warps_) warp.leave_barrier();
  }
}

std::string Block::describe(const Instruction* instruction, uint32_t thread) const {
  std::string text = name_ + ", block " + std::to_string(number_) + ", thread " + std::to_string(thread);
  if (instruction != nullptr) {
    text += ", line " + std::to_string(instruction->line + 1) + ":" + program_.lines[instruction->line];
  }
  return text;
}

void launch(const Program& program, const std::string& name, const Grid& grid, GlobalMemory& memory, unsigned order) {
  const auto function = program.functions.find(name);
  if (function == program.functions.end()) fail("the program has no function ", name);
  check_limits(function->second, grid);
  Block block(program, function->second, name, grid, memory);
  const uint64_t blocks = product(grid.blocks);
  for (uint64_t i = 0; i < blocks; ++i) block.run(order % 2 == 0 ? i : blocks - 1 - i, order);
}

}  // namespace ortconv::cuda::ptx
