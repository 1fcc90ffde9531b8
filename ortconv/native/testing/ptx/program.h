// A PTX program, decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ortconv::cuda::ptx {

class Warp;
struct Instruction;

// Carries an instruction out for some lanes of a warp.
using Execute = void (*)(Warp& warp, const Instruction& instruction, uint32_t lanes);

enum class Kind {
  kPlain,
  kBranch,
  kReturn,
  kCollective,  // of all lanes of a warp at once
  kBarrier,     // of all threads of a block
};

// A register, or a constant, which is kept as a register that nobody writes.
struct Operand {
  uint32_t at = 0;      // in the bytes of a warp's registers: a value for each lane; of a predicate, one bit for each
  uint32_t number = 0;  // of the register
};

struct Instruction {
  static constexpr int kOperands = 14;  // of mma.sync

  Kind kind = Kind::kPlain;
  Execute execute = nullptr;
  bool guarded = false, guard_negated = false;
  Operand guard;
  Operand operands[kOperands];      // in the order of the text, without braces and brackets
  int64_t offsets[2] = {0, 0};      // of the first and second address among them
  bool narrow[2] = {false, false};  // the address is a register of 32 bits
  uint32_t number = 0;              // one that is part of the instruction
  uint32_t target = 0;              // of a branch
  uint32_t line = 0;                // of the text
};

struct Function {
  // What a register holds from the beginning, the same in all lanes or as a special register of that name.
  struct Initial {
    Operand operand;
    char type;  // of operations.h
    uint64_t bits = 0;
    std::string special;
  };

  std::vector<Instruction> code;
  std::vector<Initial> initial;
  size_t register_bytes = 0, registers = 0;
  size_t param_bytes = 0, local_bytes = 0;
  uint32_t most_threads = 1024;
};

struct Program {
  std::map<std::string, Function> functions;
  std::vector<std::string> lines;
};

// Where the address spaces begin. Nothing may take it to be 0.
constexpr uint64_t kParamBase = 0x100, kSharedBase = 0x400, kLocalBase = 0x1000;

// Throws Error at whatever it does not know.
Program parse(const std::string& text);

}  // namespace ortconv::cuda::ptx
