// Integer arithmetic.
#pragma once

#include <cstdint>

namespace ortconv {

// The quotient rounded down, for b > 0.
constexpr int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// The quotient rounded up, for b > 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }

// The smallest multiple of `multiple` that is at least n.
constexpr int64_t align_up(int64_t n, int64_t multiple) { return ceil_div(n, multiple) * multiple; }

}  // namespace ortconv
