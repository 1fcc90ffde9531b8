#include "cuda/plan/fourier_tables.h"

#include <algorithm>
#include <complex>
#include <cstring>

#include "base/error.h"
#include "base/math.h"

// Its inline functions are not those of the CPU's kernels, which are compiled for other instruction sets.
#define pocketfft ortconv_pocketfft_tables
#include "kernels/fourier/pocketfft.h"

namespace ortconv::cuda {
namespace {

namespace fft = pocketfft::detail;
using Complex = std::complex<double>;

constexpr int64_t kLargestRadix = 7;
// With a chirp, tables and scratch memory are many times as large as what is transformed.
constexpr int64_t kLongestWithChirp = 1 << 24;
// Shared memory of a pass that is not the only one: several blocks of a multiprocessor have room, and a block has
// enough columns for memory to be accessed in whole sectors.
constexpr int64_t kPassBytes = 48 << 10, kPassColumns = 8;

std::vector<int64_t> prime_factors(int64_t n) {
  std::vector<int64_t> factors;
  for (int64_t p = 2; p <= kLargestRadix; ++p) {
    for (; n % p == 0; n /= p) factors.push_back(p);
  }
  if (n > 1) factors.push_back(n);
  return factors;
}

bool is_smooth(int64_t n) {
  const std::vector<int64_t> factors = prime_factors(n);
  return factors.empty() || factors.back() <= kLargestRadix;
}

// Factors of n, as few and as equal as they can be, of at most `most` each. Every prime factor of n is small.
std::vector<int64_t> split(int64_t n, int64_t most) {
  std::vector<int64_t> factors = prime_factors(n);
  std::reverse(factors.begin(), factors.end());
  for (size_t count = 2;; ++count) {
    std::vector<int64_t> parts(count, 1);
    for (const int64_t factor : factors) *std::min_element(parts.begin(), parts.end()) *= factor;
    if (*std::max_element(parts.begin(), parts.end()) <= most) return parts;
  }
}

// exp(-2 pi i k / n).
class Roots {
 public:
  explicit Roots(int64_t n) : roots_(static_cast<size_t>(n)) {}
  Complex operator[](int64_t k) const {
    const auto root = roots_[static_cast<size_t>(k)];
    return {root.r, -root.i};
  }

 private:
  fft::sincos_2pibyn<double> roots_;
};

// exp(-pi i k^2 / n) for k < n.
std::vector<Complex> chirp_of(int64_t n) {
  const Roots roots(2 * n);
  std::vector<Complex> chirp;
  chirp.reserve(static_cast<size_t>(n));
  int64_t square = 0;  // modulo 2 n
  for (int64_t k = 0; k < n; ++k) {
    chirp.push_back(roots[square]);
    square = (square + 2 * k + 1) % (2 * n);
  }
  return chirp;
}

// The transform of the conjugate chirp, which is even, divided by the length.
std::vector<Complex> spectrum_of(const std::vector<Complex>& chirp, int64_t length) {
  std::vector<fft::cmplx<double>> data(static_cast<size_t>(length), fft::cmplx<double>(0, 0));
  for (size_t k = 0; k < chirp.size(); ++k) {
    const fft::cmplx<double> value(chirp[k].real(), -chirp[k].imag());
    data[k] = value;
    if (k > 0) data[data.size() - k] = value;
  }
  fft::pocketfft_c<double>(data.size()).exec(data.data(), 1.0 / static_cast<double>(length), true);
  std::vector<Complex> spectrum;
  spectrum.reserve(data.size());
  for (const fft::cmplx<double>& value : data) spectrum.emplace_back(value.r, value.i);
  return spectrum;
}

// Writes rounded numbers into the tables.
class Writer {
 public:
  Writer(bool is_double, std::vector<unsigned char>* bytes) : is_double_(is_double), bytes_(bytes) {}

  template <class Fn>
  void write(size_t at, int64_t count, Fn number) {
    for (int64_t k = 0; k < count; ++k) {
      const Complex value = number(k);
      const float rounded[] = {static_cast<float>(value.real()), static_cast<float>(value.imag())};
      const size_t size = is_double_ ? sizeof value : sizeof rounded;
      std::memcpy(bytes_->data() + at + static_cast<size_t>(k) * size,
                  is_double_ ? static_cast<const void*>(&value) : rounded, size);
    }
  }

 private:
  bool is_double_;
  std::vector<unsigned char>* bytes_;
};

}  // namespace

FourierSteps::FourierSteps(DataType dtype, int64_t length, const Device& device)
    : length_(length), fft_length_(length), is_double_(dtype == DataType::kDouble) {
  if (!is_smooth(length)) {
    if (length > kLongestWithChirp) {
      fail("the length of the transform is ", length, "; allowed on a GPU for lengths with a prime factor above ",
           kLargestRadix, ": up to 2^24.");
    }
    is_double_ = true;
    fft_length_ = 2 * length - 1;
    while (!is_smooth(fft_length_)) ++fft_length_;
  }
  const int64_t room = static_cast<int64_t>(device.shared_bytes) / (2 * complex_bytes());
  if (fft_length_ <= room) {
    passes_ = {fft_length_};
  } else {
    passes_ = split(fft_length_, kPassBytes / (2 * complex_bytes() * kPassColumns));
  }
  for (const int64_t pass : passes_) roots_.push_back(reserve(pass));
  if (passes_.size() > 1) {
    while (int64_t{1} << 2 * fine_bits_ < fft_length_) ++fine_bits_;
    fine_ = reserve(int64_t{1} << fine_bits_);
    coarse_ = reserve(ceil_div(fft_length_, int64_t{1} << fine_bits_));
  }
  if (has_chirp()) {
    chirp_ = reserve(length_);
    chirp_spectrum_ = reserve(fft_length_);
  }
}

size_t FourierSteps::reserve(int64_t numbers) {
  const size_t at = table_bytes_;
  table_bytes_ += static_cast<size_t>(align_up(numbers * complex_bytes(), kBufferAlignment));
  return at;
}

std::vector<unsigned char> FourierSteps::tables() const {
  std::vector<unsigned char> bytes(table_bytes_);
  Writer writer(is_double_, &bytes);
  for (size_t i = 0; i < passes_.size(); ++i) {
    const Roots roots(passes_[i]);
    writer.write(roots_[i], passes_[i], [&](int64_t k) { return roots[k]; });
  }
  if (passes_.size() > 1) {
    const Roots roots(fft_length_);
    writer.write(fine_, int64_t{1} << fine_bits_, [&](int64_t k) { return roots[k % fft_length_]; });
    writer.write(coarse_, ceil_div(fft_length_, int64_t{1} << fine_bits_),
                 [&](int64_t k) { return roots[k << fine_bits_]; });
  }
  if (has_chirp()) {
    const std::vector<Complex> chirp = chirp_of(length_), spectrum = spectrum_of(chirp, fft_length_);
    writer.write(chirp_, length_, [&](int64_t k) { return chirp[static_cast<size_t>(k)]; });
    writer.write(chirp_spectrum_, fft_length_, [&](int64_t k) { return spectrum[static_cast<size_t>(k)]; });
  }
  return bytes;
}

std::vector<int> radices_of(int64_t length) {
  std::vector<int> radices;
  for (const int radix : {8, 4, 2, 3, 5, 7}) {
    for (; length % radix == 0; length /= radix) radices.push_back(radix);
  }
  return radices;
}

}  // namespace ortconv::cuda
