// How transforms of one length are computed on a device, and the tables that its kernels read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "cuda/plan/plan.h"

namespace ortconv::cuda {

// Lengths whose prime factors are at most 7 are transformed as they are. Others are circular convolutions with a chirp,
// by the algorithm of Bluestein, in transforms of at least twice their length.
//
// A transform that shared memory does not hold takes several passes over scratch memory.
class FourierSteps {
 public:
  // Throws Error where the length is not supported.
  FourierSteps(DataType dtype, int64_t length, const Device& device);

  int64_t length() const { return length_; }
  int64_t fft_length() const { return fft_length_; }
  bool has_chirp() const { return fft_length_ != length_; }
  // Whether numbers are computed in double: those of double, and chirps, which lose more than other tables to rounding.
  bool is_double() const { return is_double_; }
  int64_t complex_bytes() const { return is_double_ ? 16 : 8; }
  // The lengths of the passes, whose product is fft_length().
  const std::vector<int64_t>& passes() const { return passes_; }

  // Byte offsets in the tables: roots of unity of the length of each pass, roots of fft_length() in steps and between
  // them where there are several passes, the chirp and the spectrum of the chirp.
  size_t roots(size_t pass) const { return roots_[pass]; }
  size_t coarse() const { return coarse_; }
  size_t fine() const { return fine_; }
  size_t chirp() const { return chirp_; }
  size_t chirp_spectrum() const { return chirp_spectrum_; }
  int fine_bits() const { return fine_bits_; }
  size_t table_bytes() const { return table_bytes_; }

  // The tables, computed in double and rounded. Takes as long as transforming once.
  std::vector<unsigned char> tables() const;

 private:
  size_t reserve(int64_t numbers);

  int64_t length_, fft_length_;
  bool is_double_;
  std::vector<int64_t> passes_;
  std::vector<size_t> roots_;
  size_t coarse_ = 0, fine_ = 0, chirp_ = 0, chirp_spectrum_ = 0, table_bytes_ = 0;
  int fine_bits_ = 0;
};

// The radices of the stages of a pass of this length, each 2, 3, 4, 5, 7 or 8.
std::vector<int> radices_of(int64_t length);

}  // namespace ortconv::cuda
