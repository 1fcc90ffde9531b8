// Every Fourier kernel this CPU has against sums of products in double: short-time transforms, overlap-add and
// transforms of an axis. Nothing beyond the tensors is read or written, and threads give the same bits.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/fourier/stft.h"
#include "kernels/fourier/transform.h"
#include "testing/guarded.h"
#include "testing/on_threads.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

constexpr double kPi = 3.14159265358979323846;

int failures = 0, checked = 0;

// How far a result may be off, relative to the largest one.
template <class T>
double bound();
template <>
double bound<float>() {
  return 2e-6;
}
template <>
double bound<double>() {
  return 1e-14;
}
template <>
double bound<Float16>() {
  return 1.5e-3;
}
template <>
double bound<Bfloat16>() {
  return 1.2e-2;
}

// Memory for a tensor that ends, or begins, where memory does, and the numbers that it holds.
template <class T>
class Tensor {
 public:
  Tensor(int64_t count, bool at_begin) : count_(count), memory_(static_cast<size_t>(count) * sizeof(T), at_begin) {}

  void fill(std::mt19937& random) {
    std::uniform_real_distribution<double> draw(-1, 1);
    for (int64_t i = 0; i < count_; ++i) round_to(data() + i, static_cast<Sum<T>>(draw(random)));
  }
  double operator[](int64_t i) const { return static_cast<double>(widen(data()[i])); }
  T* data() const { return const_cast<Guarded&>(memory_).as<T>(); }
  int64_t size() const { return count_; }

 private:
  int64_t count_;
  Guarded memory_;
};

// Compares with what is expected, and names the case where it differs.
template <class T>
void expect(const std::string& what, const Tensor<T>& found, const std::vector<double>& wanted) {
  ++checked;
  double largest = 1e-3;
  for (const double value : wanted) largest = std::max(largest, std::abs(value));
  for (int64_t i = 0; i < found.size(); ++i) {
    if (std::abs(found[i] - wanted[i]) <= bound<T>() * largest) continue;
    ++failures;
    std::printf("FAIL %s: [%ld] = %g, expected %g\n", what.c_str(), static_cast<long>(i), found[i], wanted[i]);
    return;
  }
}

template <class T>
void expect_same(const std::string& what, const Tensor<T>& a, const Tensor<T>& b) {
  ++checked;
  if (std::memcmp(a.data(), b.data(), static_cast<size_t>(a.size()) * sizeof(T)) == 0) return;
  ++failures;
  std::printf("FAIL %s: threads give other bits\n", what.c_str());
}

double basis(bool is_sine, int64_t f, int64_t j, int64_t n) {
  const int64_t phase = f * j % n;
  if (2 * phase % n == 0) return is_sine ? 0 : phase == 0 ? 1 : -1;
  const double angle = 2 * kPi * static_cast<double>(phase) / static_cast<double>(n);
  return is_sine ? std::sin(angle) : std::cos(angle);
}

struct Case {
  StftProblem problem;
  bool splits;  // cosines and sines of the inverse are tensors of their own
};

Case draw_case(std::mt19937& random, bool has_transform) {
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  static const int64_t lengths[] = {1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 15, 16, 17, 20, 32, 49, 53, 60, 64, 101, 128, 400};
  Case made{};
  StftProblem& p = made.problem;
  const int64_t n = lengths[draw(0, std::size(lengths) - 1)];
  FrameGrid& grid = p.grid;
  grid.taps = draw(0, 1) == 0 ? n : draw(1, n);
  grid.hop = draw(0, 2) == 0 ? draw(1, n + 3) : std::max<int64_t>(n / 4, 1);
  grid.bins = draw(0, 1) == 0 ? n / 2 + 1 : draw(1, n);
  grid.bins = std::min(grid.bins, n);
  grid.frames = draw(0, 3) == 0 ? draw(60, 200) : draw(1, 20);
  grid.padding = draw(0, 1) == 0 ? 0 : draw(0, n);
  p.batch = draw(1, 2);
  p.parts = static_cast<SpectralParts>(draw(0, 2));
  p.n_fft = has_transform ? n : 0;
  if (!has_transform) grid.bins = grid.taps;
  made.splits = has_transform && p.parts == SpectralParts::kBoth && draw(0, 1) == 0;
  return made;
}

int64_t channels_of(const StftProblem& p) { return p.parts == SpectralParts::kBoth ? 2 * p.grid.bins : p.grid.bins; }

// The filter of channel c: what its element at tap j is multiplied by.
template <class T>
double filter(const StftProblem& p, const Tensor<T>& window, const Tensor<T>& gains, int64_t c, int64_t j) {
  if (p.n_fft == 0) return c == j ? window[j] : 0;
  const bool is_sine = p.parts == SpectralParts::kSines || c >= p.grid.bins;
  return gains[c] * window[j] * basis(is_sine, c % p.grid.bins, j, p.n_fft);
}

template <class T>
void check_stft(const FourierKernel<T>& kernel, std::mt19937& random, bool has_transform) {
  const Case made = draw_case(random, has_transform);
  StftProblem p = made.problem;
  FrameGrid& grid = p.grid;
  const bool at_begin = random() % 2 == 0;
  const int64_t channels = has_transform ? channels_of(p) : grid.taps;
  const int64_t reach = (grid.frames - 1) * grid.hop + grid.taps;
  std::string what = std::string(kernel.name) + " " + std::to_string(sizeof(T)) + " bytes, n " +
                     std::to_string(p.n_fft) + " taps " + std::to_string(grid.taps) + " hop " +
                     std::to_string(grid.hop) + " bins " + std::to_string(grid.bins) + " frames " +
                     std::to_string(grid.frames) + " padding " + std::to_string(grid.padding) + " parts " +
                     std::to_string(static_cast<int>(p.parts));
  Tensor<T> window(grid.taps, at_begin), gains(channels, at_begin);
  window.fill(random), gains.fill(random);
  const std::unique_ptr<FourierPlan> plan = has_transform ? kernel.make_plan(p.n_fft, FourierKind::kReal) : nullptr;
  const auto each_parallel = [&](auto&& run) {
    for (const int threads : {1, 3}) {
      const Parallel parallel = threads == 1 ? serial() : on_threads(threads);
      Guarded scratch(stft_scratch_bytes(kernel, p, threads), true);
      run(threads, parallel, scratch.as<char>());
    }
  };

  if (has_transform && reach > grid.padding) {
    grid.length = std::max<int64_t>(reach - grid.padding - static_cast<int64_t>(random() % 3), 0);
    Tensor<T> signal(p.batch * grid.length, at_begin), one(p.batch * channels * grid.frames, at_begin),
        several(p.batch * channels * grid.frames, at_begin);
    signal.fill(random);
    each_parallel([&](int threads, const Parallel& parallel, void* scratch) {
      forward_stft(kernel, *plan, p, signal.data(), window.data(), gains.data(), (threads == 1 ? one : several).data(),
                   scratch, parallel);
    });
    std::vector<double> wanted;
    for (int64_t image = 0; image < p.batch; ++image) {
      for (int64_t c = 0; c < channels; ++c) {
        std::vector<double> taps(grid.taps);
        for (int64_t j = 0; j < grid.taps; ++j) taps[j] = filter(p, window, gains, c, j);
        for (int64_t t = 0; t < grid.frames; ++t) {
          double sum = 0;
          for (int64_t j = 0; j < grid.taps; ++j) {
            const int64_t at = t * grid.hop + j - grid.padding;
            if (at >= 0 && at < grid.length) sum += taps[j] * signal[image * grid.length + at];
          }
          wanted.push_back(sum);
        }
      }
    }
    expect("forward " + what, one, wanted);
    expect_same("forward " + what, one, several);
  }

  grid.length = std::max<int64_t>(reach - grid.padding + static_cast<int64_t>(random() % 9) - 4, 0);
  Tensor<T> spectrum(p.batch * channels * grid.frames, at_begin), one(p.batch * grid.length, at_begin),
      several(p.batch * grid.length, at_begin);
  spectrum.fill(random);
  Tensor<T> cosines(spectrum.size() / 2, at_begin), sines(spectrum.size() / 2, at_begin);
  if (made.splits) {
    const int64_t half = channels / 2 * grid.frames;
    for (int64_t image = 0; image < p.batch; ++image) {
      std::copy_n(spectrum.data() + 2 * image * half, half, cosines.data() + image * half);
      std::copy_n(spectrum.data() + (2 * image + 1) * half, half, sines.data() + image * half);
    }
  }
  each_parallel([&](int threads, const Parallel& parallel, void* scratch) {
    inverse_stft(kernel, plan.get(), p, made.splits ? cosines.data() : spectrum.data(),
                 made.splits ? sines.data() : nullptr, window.data(), has_transform ? gains.data() : nullptr,
                 (threads == 1 ? one : several).data(), scratch, parallel);
  });
  std::vector<double> wanted(one.size());
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t j = 0; j < grid.taps; ++j) {
      const double tap = filter(p, window, gains, c, j);
      for (int64_t image = 0; tap != 0 && image < p.batch; ++image) {
        for (int64_t t = 0; t < grid.frames; ++t) {
          const int64_t at = t * grid.hop + j - grid.padding;
          if (at < 0 || at >= grid.length) continue;
          wanted[image * grid.length + at] += tap * spectrum[(image * channels + c) * grid.frames + t];
        }
      }
    }
  }
  expect("inverse " + what, one, wanted);
  expect_same("inverse " + what, one, several);
}

// [outer, size, inner, parts] by the definition.
template <class T>
void check_transform(const FourierKernel<T>& kernel, std::mt19937& random) {
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  const int64_t length = draw(0, 3) == 0 ? draw(50, 200) : draw(1, 49), outer = draw(1, 6), inner = draw(1, 6);
  const bool from_bins = draw(0, 3) == 0;
  FourierRows<T> rows{};
  rows.inner = inner;
  rows.is_inverse = from_bins || draw(0, 1) == 0;
  rows.x_parts = from_bins ? 2 : draw(1, 2);
  rows.y_parts = from_bins ? 1 : 2;
  const bool to_bins = rows.x_parts == 1 && !rows.is_inverse && draw(0, 1) == 0;
  const int64_t natural = from_bins ? length / 2 + 1 : length;
  rows.size = draw(0, 2) == 0 ? draw(1, 2 * natural) : natural;
  rows.count = to_bins ? length / 2 + 1 : length;
  const bool at_begin = draw(0, 1) == 0;
  Tensor<T> x(outer * rows.size * inner * rows.x_parts, at_begin);
  Tensor<T> one(outer * rows.count * inner * rows.y_parts, at_begin), several(one.size(), at_begin);
  x.fill(random);
  const bool is_real = rows.x_parts == 1 || from_bins;
  const auto plan = kernel.make_plan(length, is_real ? FourierKind::kReal : FourierKind::kComplex);
  for (const int threads : {1, 3}) {
    Guarded scratch(fourier_scratch_bytes(kernel, length, outer * inner, threads), true);
    rows.x = x.data();
    rows.y = (threads == 1 ? one : several).data();
    fourier_transform(kernel, *plan, rows, outer * inner, scratch.as<char>(),
                      threads == 1 ? serial() : on_threads(threads));
  }
  std::vector<double> wanted(one.size());
  const double sign = rows.is_inverse ? 1 : -1, scale = rows.is_inverse ? 1.0 / static_cast<double>(length) : 1;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      for (int64_t k = 0; k < rows.count; ++k) {
        double real = 0, imaginary = 0;
        for (int64_t j = 0; j < std::min(rows.size, natural); ++j) {
          const int64_t at = ((o * rows.size + j) * inner + i) * rows.x_parts;
          const double a = x[at], b = rows.x_parts == 2 ? x[at + 1] : 0;
          const double c = basis(false, j, k, length), s = sign * basis(true, j, k, length);
          const double times = from_bins && 2 * j % length != 0 ? 2 : 1;
          real += times * (a * c - b * s), imaginary += times * (a * s + b * c);
        }
        const int64_t at = ((o * rows.count + k) * inner + i) * rows.y_parts;
        wanted[at] = real * scale;
        if (rows.y_parts == 2) wanted[at + 1] = imaginary * scale;
      }
    }
  }
  const std::string what = std::string(kernel.name) + " " + std::to_string(sizeof(T)) + " bytes, length " +
                           std::to_string(length) + " size " + std::to_string(rows.size) + " parts " +
                           std::to_string(rows.x_parts) + " to " + std::to_string(rows.y_parts) + " inner " +
                           std::to_string(inner) + " inverse " + std::to_string(rows.is_inverse);
  expect("transform " + what, one, wanted);
  expect_same("transform " + what, one, several);
}

template <class T>
void check_kernel(const ArchFlags& arch, int problems) {
  const FourierKernel<T>& kernel = get_fourier_kernel<T>(arch);
  std::mt19937 random(7);
  for (int i = 0; i < problems; ++i) {
    check_stft(kernel, random, true);
    check_stft(kernel, random, false);
    check_transform(kernel, random);
  }
  std::printf("%s, %zu bytes\n", kernel.name, sizeof(T));
}

}  // namespace

int main(int argc, char** argv) {
  const int problems = argc > 1 ? std::atoi(argv[1]) : 120;
  const ArchFlags& host = ArchFlags::host();
  ArchFlags avx2;
  avx2.avx2_fma = host.avx2_fma;
  const FourierKernel<float>* seen = nullptr;
  for (const ArchFlags& arch : {ArchFlags{}, avx2, host}) {
    const FourierKernel<float>* const kernel = &get_fourier_kernel<float>(arch);
    if (kernel == seen) continue;
    seen = kernel;
    check_kernel<float>(arch, problems);
    check_kernel<double>(arch, problems);
    check_kernel<Float16>(arch, problems);
    check_kernel<Bfloat16>(arch, problems);
  }
  if (!host.avx2_fma) std::printf("SKIP avx2: this CPU lacks AVX2 or FMA\n");
  if (!host.avx512) std::printf("SKIP avx512: this CPU lacks AVX-512\n");
  std::printf("%d results, %d failures\n", checked, failures);
  return failures == 0 ? 0 : 1;
}
