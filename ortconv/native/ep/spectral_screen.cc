// Let a_f be filter f of a basis at a tap: gain * window * cos(f p). From
//   cos((f - 1) p) * cos((f + 1) p) = cos(f p)^2 - sin(p)^2
// follows that a_{f-1} * a_{f+1} and a_f^2, with factors that are the same at all taps, add up to window^2 * sin(p)^2;
// so do a_f * a_{f+2} and a_{f+1}^2. As vectors over the taps, these four products are linearly dependent, then,
// whatever the gains, the window and n_fft are. The same holds of sines.
#include "ep/spectral_screen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "ep/numbers.h"

namespace ortconv::ep {
namespace {

constexpr int64_t kFilters = 4, kTaps = 64;  // that are looked at together

// The root mean square over the taps that no combination of the products, with factors whose squares add up to 1, falls
// below. Filters that are off by e of their size change it by 4 e at most: this is 10 times what float16 may be.
constexpr double kLeast = 1.0 / 32;
constexpr double kSmallest = 1.0 / 1024;  // of a filter, as in spectral_basis.cc

// The bits of the largest magnitude, which are ordered as the numbers are; of what is no finite number they are larger.
template <class Bits>
Bits largest_bits(const void* numbers, int64_t count) {
  constexpr auto kMagnitude = static_cast<Bits>(~(Bits{1} << (8 * sizeof(Bits) - 1)));
  Bits largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, static_cast<const unsigned char*>(numbers) + i * static_cast<int64_t>(sizeof bits), sizeof bits);
    largest = std::max(largest, static_cast<Bits>(bits & kMagnitude));
  }
  return largest;
}

double largest_of(const float* numbers, int64_t count) {
  return to_double(float_of(largest_bits<uint32_t>(numbers, count)));
}

double largest_of(const Float16* numbers, int64_t count) {
  return to_double(Float16{largest_bits<uint16_t>(numbers, count)});
}

using Products = std::array<double, kFilters>;

// Whether a symmetric matrix is positive definite, by its Cholesky decomposition.
bool is_definite(std::array<Products, kFilters> matrix) {
  for (int64_t i = 0; i < kFilters; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      double rest = matrix[i][j];
      for (int64_t k = 0; k < j; ++k) rest -= matrix[i][k] * matrix[j][k];
      if (i == j && !(rest > 0)) return false;
      matrix[i][j] = i == j ? std::sqrt(rest) : rest / matrix[j][j];
    }
  }
  return true;
}

// Whether the products of four neighbours are linearly independent. `floor` is the least size of a filter.
template <class T>
bool is_independent(const T* filters, int64_t taps, double floor) {
  Products sizes;
  for (int64_t f = 0; f < kFilters; ++f) sizes[f] = std::max(largest_of(filters + f * taps, taps), floor);
  std::array<Products, kFilters> sums{};
  int64_t count = 0;
  for (int64_t j = 0; j < taps; j += std::max<int64_t>(taps / kTaps, 1), ++count) {
    Products a;
    for (int64_t f = 0; f < kFilters; ++f) a[f] = to_double(filters[f * taps + j]) / sizes[f];
    const Products products = {a[0] * a[2], a[1] * a[1], a[1] * a[3], a[2] * a[2]};
    for (int64_t r = 0; r < kFilters; ++r) {
      for (int64_t c = 0; c < kFilters; ++c) sums[r][c] += products[r] * products[c];
    }
  }
  for (int64_t r = 0; r < kFilters; ++r) sums[r][r] -= kLeast * kLeast * static_cast<double>(count);
  return is_definite(sums);
}

template <class T>
bool may_be_basis(int64_t count, int64_t taps, const T* filters) {
  const int64_t bins = count / 2;  // from which on there may be sines
  double floor = -1;
  for (const int64_t first : {int64_t{1}, bins / 4, bins / 2}) {
    if (first < 1 || first + kFilters > bins) continue;
    if (floor < 0) floor = largest_of(filters, count * taps) * kSmallest;
    if (is_independent(filters + first * taps, taps, floor)) return false;
  }
  return true;
}

}  // namespace

bool may_be_basis(DataType dtype, int64_t count, int64_t taps, const void* filters) {
  if (dtype == DataType::kFloat16) return may_be_basis(count, taps, static_cast<const Float16*>(filters));
  return may_be_basis(count, taps, static_cast<const float*>(filters));
}

}  // namespace ortconv::ep
