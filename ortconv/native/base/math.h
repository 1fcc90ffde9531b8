// Integer arithmetic of sizes. Divisors are positive.
#pragma once

#include <cstdint>

namespace ortconv {

constexpr int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }

// The least multiple of `granule` that is not below `value`.
constexpr int64_t align_up(int64_t value, int64_t granule) { return ceil_div(value, granule) * granule; }

}  // namespace ortconv
