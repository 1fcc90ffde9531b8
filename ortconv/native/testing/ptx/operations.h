// The instructions that the machine knows, by their full names.
#pragma once

#include <map>
#include <string>

#include "testing/ptx/program.h"

namespace ortconv::cuda::ptx {

// `operands` is the form of what follows the name: types of registers or constants with the punctuation between them.
// p: predicate; h, w, d: 16, 32, 64 bits; a: an address in brackets; L: a label; n: a number; blanks are for the eye.
struct Operation {
  std::string operands;
  Execute execute = nullptr;
  Kind kind = Kind::kPlain;
};

using Operations = std::map<std::string, Operation>;

constexpr size_t bytes_of_type(char type) { return type == 'h' ? 2 : type == 'w' ? 4 : 8; }

void add_integer_operations(Operations* all);
void add_float_operations(Operations* all);
void add_data_operations(Operations* all);  // moves, selections, predicates
void add_memory_operations(Operations* all);
void add_warp_operations(Operations* all);

// Float16 and float. To nearest, ties to even.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);

const Operations& operations();

}  // namespace ortconv::cuda::ptx
