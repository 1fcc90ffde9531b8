// Fourier transforms, carried out by the emulator, against the definition in double.
#include <cmath>
#include <complex>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda/plan/fourier_plan.h"
#include "testing/cuda/plans.h"
#include "testing/cuda/tensors.h"

namespace ortconv::cuda {
namespace {

using Wide = long double;
using Number = std::complex<Wide>;
using kernels::SpectralParts;
using kernels::StftProblem;

const Device kSmall = {75, 2, 64 << 10}, kLarge = {80, 3, 163 << 10};
constexpr Wide kPi = 3.14159265358979323846264338327950288L;

template <class T>
constexpr DataType kTypeOf = std::is_same_v<T, double>    ? DataType::kDouble
                             : std::is_same_v<T, Float16> ? DataType::kFloat16
                             : std::is_same_v<T, float>   ? DataType::kFloat
                                                          : DataType::kBfloat16;

double widened(double value) { return value; }
template <class T>
double widened(T value) {
  return test::widen(value);
}
template <class T>
T narrowed(double value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return test::narrow<T>(value);
  }
}

// How far a result is from the definition, relative to the root of the mean square of what is defined.
template <class T>
constexpr double kBound = std::is_same_v<T, double>    ? 1e-15
                          : std::is_same_v<T, float>   ? 2e-7
                          : std::is_same_v<T, Float16> ? 3e-4
                                                       : 2.5e-3;

template <class T>
std::vector<T> draw(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(narrowed<T>(normal(random)));
  return values;
}

template <class T>
std::vector<T> undefined(int64_t count) {
  T ones;
  std::memset(static_cast<void*>(&ones), 0xff, sizeof ones);
  return std::vector<T>(static_cast<size_t>(count), ones);
}

template <class T>
void compare(const std::vector<T>& found, const std::vector<double>& expected, const std::string& what) {
  double error = 0, square = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const double difference = widened(found[i]) - expected[i];
    error += difference * difference;
    square += expected[i] * expected[i];
  }
  const bool is_close = found.size() == expected.size() && std::sqrt(error) <= kBound<T> * std::sqrt(square);
  EXPECT(is_close, what, ": ", found.size(), " of ", expected.size(), " elements, whose error is ",
         std::sqrt(error / square), " of their root mean square");
}

// cos and sin of 2 pi k / n.
std::vector<Number> circle(int64_t n) {
  std::vector<Number> all;
  for (int64_t k = 0; k < n; ++k) {
    const Wide angle = 2 * kPi * static_cast<Wide>(k) / static_cast<Wide>(n);
    all.emplace_back(std::cos(angle), std::sin(angle));
  }
  return all;
}

// Tables and launches.
struct Gpu {
  emulator::Memory memory;

  void run(const Plan& plan, const Device& device, unsigned order, const std::string& what) {
    DeviceMemory scratch(plan.scratch_bytes);
    memory.set(Buffer::kScratch, scratch.data(), plan.scratch_bytes, ptx::Content::kUndefined);
    try {
      for (const Launch& launch : plan.launches) {
        expect_within_limits(launch, device, what);
        emulator::run(launch, device.sm, memory, {order, false});
      }
    } catch (const Error& error) {
      EXPECT(false, what, ": ", error.what());
    }
  }
};

struct AxisCase {
  int64_t length, outer = 1, inner = 1, size = -1;
  bool is_inverse = false, is_onesided = false, is_real = false;
  Device device = kLarge;
};

std::string describe(const AxisCase& c, DataType dtype) {
  return test::describe("type ", static_cast<int>(dtype), " length ", c.length, " outer ", c.outer, " inner ", c.inner,
                        " size ", c.size, c.is_inverse ? " inverse" : "", c.is_onesided ? " onesided" : "",
                        c.is_real ? " real" : "", " shared bytes ", c.device.shared_bytes);
}

// What the definition makes of the row at (outer, inner).
template <class T>
std::vector<Number> transformed(const AxisCase& c, const AxisTransform& t, const std::vector<T>& x, int64_t outer,
                                int64_t inner, const std::vector<Number>& roots) {
  std::vector<Number> row(static_cast<size_t>(c.length));
  const bool is_hermitian = c.is_inverse && c.is_onesided;
  for (int64_t k = 0; k < std::min(t.size, is_hermitian ? c.length / 2 + 1 : c.length); ++k) {
    const T* const at = x.data() + ((outer * t.size + k) * t.inner + inner) * t.x_parts;
    Number value(widened(at[0]), t.x_parts == 2 ? widened(at[1]) : 0);
    const bool is_alone = k == 0 || 2 * k == c.length;
    if (is_hermitian && is_alone) value = value.real();
    row[k] = value;
    if (is_hermitian && !is_alone) row[c.length - k] = std::conj(value);
  }
  std::vector<Number> result(static_cast<size_t>(t.count));
  for (int64_t j = 0; j < c.length; ++j) {
    if (row[j] == Number(0)) continue;
    int64_t phase = 0;
    for (Number& sum : result) {
      const Number a = row[j], b = roots[phase];
      const Wide sine = c.is_inverse ? b.imag() : -b.imag();
      sum += Number(a.real() * b.real() - a.imag() * sine, a.real() * sine + a.imag() * b.real());
      phase += j;
      if (phase >= c.length) phase -= c.length;
    }
  }
  for (Number& sum : result) sum /= c.is_inverse ? static_cast<Wide>(c.length) : 1;
  return result;
}

template <class T>
void check(const AxisCase& c, unsigned seed = 1) {
  const bool is_hermitian = c.is_inverse && c.is_onesided;
  const int64_t bins = c.length / 2 + 1;
  AxisTransform t{};
  t.outer = c.outer, t.inner = c.inner, t.is_inverse = c.is_inverse;
  t.size = c.size >= 0 ? c.size : is_hermitian ? bins : c.length;
  t.count = c.is_onesided && !c.is_inverse ? bins : c.length;
  t.x_parts = c.is_real || (c.is_onesided && !c.is_inverse) ? 1 : 2;
  t.y_parts = is_hermitian ? 1 : 2;
  const std::string what = describe(c, kTypeOf<T>);
  std::vector<T> in = draw<T>(t.outer * t.size * t.inner * t.x_parts, seed);
  // The definition takes long: of long transforms, few elements are not zero.
  for (size_t i = 0; c.length > 1000 && i < in.size(); ++i) {
    if (i * 7919 % in.size() >= 200) in[i] = T();
  }
  const FourierSteps steps(kTypeOf<T>, c.length, c.device);
  const Plan plan = plan_transform(kTypeOf<T>, steps, t, c.device);
  const Tensor<T> x(in, 0), y(undefined<T>(t.outer * t.count * t.inner * t.y_parts), 0);
  const Tensor<unsigned char> tables(steps.tables(), 0);
  Gpu gpu;
  x.put(Buffer::kX, ptx::Content::kDefined, &gpu.memory);
  tables.put(Buffer::kTables, ptx::Content::kDefined, &gpu.memory);
  y.put(Buffer::kY, ptx::Content::kResult, &gpu.memory);
  gpu.run(plan, c.device, seed % 4, what);
  std::vector<double> expected(y.values().size());
  const std::vector<Number> roots = circle(c.length);
  for (int64_t outer = 0; outer < t.outer; ++outer) {
    for (int64_t inner = 0; inner < t.inner; ++inner) {
      const std::vector<Number> row = transformed(c, t, in, outer, inner, roots);
      for (int64_t k = 0; k < t.count; ++k) {
        double* const at = expected.data() + ((outer * t.count + k) * t.inner + inner) * t.y_parts;
        at[0] = static_cast<double>(row[k].real());
        if (t.y_parts == 2) at[1] = static_cast<double>(row[k].imag());
      }
    }
  }
  compare(y.values(), expected, what);
}

// All four kinds of transform.
template <class T>
void check_kinds(AxisCase c) {
  check<T>(c, 1);
  c.is_inverse = true;
  check<T>(c, 2);
  if (c.length > 1 || c.size > 0) {
    c.is_onesided = true;
    check<T>(c, 3);
  }
  c.is_onesided = true, c.is_inverse = false;
  check<T>(c, 4);
  c.is_onesided = false, c.is_real = true;
  check<T>(c, 5);
}

TEST(short_transforms) {
  for (int64_t length = 1; length <= 40; ++length) {
    AxisCase c{length};
    c.outer = 1 + length % 3, c.inner = 1 + length % 4;
    c.size = length == 1 ? 1 : -1;
    check_kinds<float>(c);
    check_kinds<double>(c);
  }
}

TEST(lengths_of_one_pass) {
  for (const int64_t length : {64, 97, 101, 128, 210, 256, 343, 400, 509, 512, 1000, 1009, 1024, 1500, 2048, 4096}) {
    AxisCase c{length};
    c.outer = 2;
    c.device = length % 2 == 0 ? kSmall : kLarge;
    check<float>(c);
    c.is_inverse = c.is_onesided = true;
    check<float>(c);
    check<double>(c);
  }
}

TEST(lengths_of_several_passes) {
  for (const int64_t length : {4096, 6000, 8192, 4099}) {
    AxisCase c{length};
    c.device = kSmall;
    check<float>(c);
    c.is_inverse = c.is_onesided = true;
    check<double>(c);
  }
}

TEST(lengths_of_three_passes) {
  for (const int64_t length : {40960, 20011}) {
    AxisCase c{length};
    c.device = kSmall;
    const FourierSteps steps(DataType::kDouble, c.length, c.device);
    EXPECT(steps.passes().size() == 3, steps.passes().size());
    check<double>(c);
  }
}

// Lengths alone: the tables would take gigabytes.
TEST(the_longest_transforms) {
  const FourierSteps steps(DataType::kDouble, int64_t{1} << 27, kSmall);
  EXPECT(steps.passes().size() == 4, steps.passes().size());
  EXPECT(steps.table_bytes() < 1 << 20, steps.table_bytes());
  EXPECT(test::refusal([] { FourierSteps(DataType::kFloat, (int64_t{1} << 24) + 1, kSmall); }) ==
             "the length of the transform is 16777217; allowed on a GPU for lengths with a prime factor above 7: up to "
             "2^24.",
         "refused");
}

TEST(axes_and_sizes) {
  for (const int64_t length : {12, 60, 101, 6000}) {
    for (const int64_t inner : {1, 5}) {
      AxisCase c{length};
      c.outer = 3, c.inner = length > 1000 ? 1 : inner;
      c.device = kSmall;
      for (const int64_t size : {length / 3, length - 1, length + 7}) {
        c.size = size;
        check_kinds<float>(c);
      }
    }
  }
}

TEST(floats_of_16_bits) {
  for (const int64_t length : {60, 101, 6000}) {
    AxisCase c{length};
    c.device = kSmall;
    check<Float16>(c);
    check<Bfloat16>(c);
  }
}

TEST(many_rows_are_shared_out) {
  AxisCase c{16};
  c.outer = 700;
  check<float>(c);
  c.inner = 700, c.outer = 1;
  check<float>(c);
}

// Of all three operators of frames: window and gains are inputs, too.
struct FramesCase {
  int64_t n_fft, taps, hop, bins, batch = 2, frames = 5, begin = 0, added = 0;
  SpectralParts parts = SpectralParts::kBoth;
  bool has_sines = false;  // a tensor of their own
  Device device = kLarge;
};

std::string describe(const FramesCase& c, const char* op, DataType dtype) {
  return test::describe(op, " type ", static_cast<int>(dtype), " n_fft ", c.n_fft, " taps ", c.taps, " hop ", c.hop,
                        " bins ", c.bins, " batch ", c.batch, " frames ", c.frames, " begin ", c.begin, " parts ",
                        static_cast<int>(c.parts), c.has_sines ? " sines" : "");
}

int64_t channels_of(const FramesCase& c) { return c.bins * (c.parts == SpectralParts::kBoth ? 2 : 1); }

// cos(2 pi f j / n), or sin, of a channel.
Wide wave(const FramesCase& c, const std::vector<Number>& roots, int64_t channel, int64_t tap) {
  const bool is_sine = c.parts == SpectralParts::kSines || channel >= c.bins;
  const int64_t phase = channel % c.bins * tap % c.n_fft;
  if (is_sine && 2 * phase % c.n_fft == 0) return 0;
  const Number root = roots[phase];
  return is_sine ? root.imag() : root.real();
}

// Runs a plan on these inputs, the data first.
template <class T>
std::vector<T> run(const Plan& plan, const FramesCase& c, const std::vector<std::pair<Buffer, std::vector<T>>>& inputs,
                   const std::vector<unsigned char>& tables, int64_t outputs, const std::string& what) {
  std::vector<std::unique_ptr<Tensor<T>>> tensors;
  Gpu gpu;
  for (const auto& [buffer, values] : inputs) {
    tensors.push_back(std::make_unique<Tensor<T>>(values, 0));
    tensors.back()->put(buffer, ptx::Content::kDefined, &gpu.memory);
  }
  const Tensor<unsigned char> on_gpu(tables, 0);
  on_gpu.put(Buffer::kTables, ptx::Content::kDefined, &gpu.memory);
  const Tensor<T> y(undefined<T>(outputs), 0);
  y.put(Buffer::kY, ptx::Content::kResult, &gpu.memory);
  gpu.run(plan, c.device, static_cast<unsigned>(c.n_fft % 3), what);
  return y.values();
}

template <class T>
void check_forward(const FramesCase& c) {
  const std::string what = describe(c, "forward", kTypeOf<T>);
  const int64_t length = (c.frames - 1) * c.hop + c.taps - c.begin + c.hop / 2;
  const StftProblem p{c.batch, c.n_fft, {c.taps, c.hop, c.bins, c.frames, c.begin, length}, c.parts};
  const std::vector<T> signal = draw<T>(c.batch * length, 1), window = draw<T>(c.taps, 2),
                       gains = draw<T>(channels_of(c), 3);
  const FourierSteps steps(kTypeOf<T>, c.n_fft, c.device);
  const Plan plan = plan_forward_stft(kTypeOf<T>, steps, p, c.device);
  const std::vector<T> y = run<T>(plan, c, {{Buffer::kX, signal}, {Buffer::kWindow, window}, {Buffer::kGains, gains}},
                                  steps.tables(), c.batch * channels_of(c) * c.frames, what);
  const std::vector<Number> roots = circle(c.n_fft);
  std::vector<double> expected;
  for (int64_t image = 0; image < c.batch; ++image) {
    for (int64_t channel = 0; channel < channels_of(c); ++channel) {
      for (int64_t t = 0; t < c.frames; ++t) {
        Wide sum = 0;
        for (int64_t j = 0; j < c.taps; ++j) {
          const int64_t at = t * c.hop + j - c.begin;
          if (at < 0 || at >= length) continue;
          sum += widened(window[j]) * wave(c, roots, channel, j) * widened(signal[image * length + at]);
        }
        expected.push_back(static_cast<double>(sum * widened(gains[channel])));
      }
    }
  }
  compare(y, expected, what);
}

// Adds windowed frames, [image][t][j], to a signal.
std::vector<double> overlapped(const FramesCase& c, const std::vector<Wide>& frames, int64_t length) {
  std::vector<Wide> sums(static_cast<size_t>(c.batch * length));
  for (int64_t i = 0; i < static_cast<int64_t>(frames.size()); ++i) {
    const int64_t image = i / (c.frames * c.taps), t = i / c.taps % c.frames;
    const int64_t at = t * c.hop + i % c.taps - c.begin;
    if (at >= 0 && at < length) sums[image * length + at] += frames[i];
  }
  return std::vector<double>(sums.begin(), sums.end());
}

template <class T>
void check_inverse(const FramesCase& c) {
  const std::string what = describe(c, "inverse", kTypeOf<T>);
  const int64_t length = (c.frames - 1) * c.hop + c.taps - c.begin + c.added, channels = channels_of(c);
  const StftProblem p{c.batch, c.n_fft, {c.taps, c.hop, c.bins, c.frames, c.begin, length}, c.parts};
  const int64_t half = c.bins * c.frames;
  const std::vector<T> spectrum = draw<T>(c.batch * channels * c.frames, 4), window = draw<T>(c.taps, 5),
                       gains = draw<T>(channels, 6);
  std::vector<std::pair<Buffer, std::vector<T>>> inputs = {
      {Buffer::kX, spectrum}, {Buffer::kWindow, window}, {Buffer::kGains, gains}};
  if (c.has_sines) {
    std::vector<T> parts[2];
    for (size_t i = 0; i < spectrum.size(); ++i) parts[i / half % 2].push_back(spectrum[i]);
    inputs[0].second = parts[0];
    inputs.push_back({Buffer::kSines, parts[1]});
  }
  const FourierSteps steps(kTypeOf<T>, c.n_fft, c.device);
  const Plan plan = plan_inverse_stft(kTypeOf<T>, steps, p, c.has_sines, c.device);
  const std::vector<T> y = run<T>(plan, c, inputs, steps.tables(), c.batch * length, what);
  const std::vector<Number> roots = circle(c.n_fft);
  std::vector<Wide> frames;
  for (int64_t image = 0; image < c.batch; ++image) {
    for (int64_t t = 0; t < c.frames; ++t) {
      for (int64_t j = 0; j < c.taps; ++j) {
        Wide sum = 0;
        for (int64_t channel = 0; channel < channels; ++channel) {
          const double value = widened(spectrum[(image * channels + channel) * c.frames + t]);
          sum += widened(gains[channel]) * value * wave(c, roots, channel, j);
        }
        frames.push_back(sum * widened(window[j]));
      }
    }
  }
  compare(y, overlapped(c, frames, length), what);
}

template <class T>
void check_overlap_add(const FramesCase& c) {
  const std::string what = describe(c, "overlap-add", kTypeOf<T>);
  const int64_t length = (c.frames - 1) * c.hop + c.taps - c.begin + c.added;
  const StftProblem p{c.batch, 0, {c.taps, c.hop, c.taps, c.frames, c.begin, length}, c.parts};
  const std::vector<T> given = draw<T>(c.batch * c.taps * c.frames, 7), window = draw<T>(c.taps, 8);
  const Plan plan = plan_overlap_add(kTypeOf<T>, p, c.device);
  const std::vector<T> y =
      run<T>(plan, c, {{Buffer::kX, given}, {Buffer::kWindow, window}}, {}, c.batch * length, what);
  std::vector<Wide> frames;
  for (int64_t i = 0; i < static_cast<int64_t>(given.size()); ++i) {
    const int64_t image = i / (c.frames * c.taps), t = i / c.taps % c.frames, j = i % c.taps;
    frames.push_back(Wide(widened(given[(image * c.taps + j) * c.frames + t])) * widened(window[j]));
  }
  compare(y, overlapped(c, frames, length), what);
}

template <class T>
void check_operators(const FramesCase& c) {
  check_forward<T>(c);
  check_inverse<T>(c);
  check_overlap_add<T>(c);
}

TEST(frames_of_short_transforms) {
  for (int64_t n = 1; n <= 40; ++n) {
    FramesCase c{n, n % 3 == 0 ? std::max<int64_t>(n - 2, 1) : n, std::max<int64_t>(n / (1 + n % 5), 1), n / 2 + 1};
    c.bins = n % 4 == 1 ? n : n % 4 == 2 ? 1 : std::min(c.bins, n);
    c.parts = static_cast<SpectralParts>(n % 3);
    c.begin = n % 4 < c.taps ? n % 4 : 0;
    c.added = n % 3;
    c.has_sines = c.parts == SpectralParts::kBoth && n % 2 == 0;
    check_operators<float>(c);
    check_operators<double>(c);
  }
}

TEST(frames_of_longer_transforms) {
  for (const int64_t n : {101, 400, 512, 1000, 1024, 6000}) {
    FramesCase c{n, n, n / 4, n / 2 + 1, 1, 3, n / 2};
    c.device = kSmall;
    if (n > 1024) c.bins = 20;
    check_operators<float>(c);
  }
  FramesCase c{400, 400, 160, 201, 1, 40, 200};
  check_forward<float>(c);
}

TEST(frames_of_floats_of_16_bits) {
  const FramesCase c{60, 50, 15, 31};
  check_operators<Float16>(c);
  check_operators<Bfloat16>(c);
}

TEST(no_frames_leave_zeros) {
  FramesCase c{16, 16, 4, 9};
  c.frames = 0;
  c.added = 9;
  check_inverse<float>(c);
  check_overlap_add<float>(c);
}

}  // namespace
}  // namespace ortconv::cuda
