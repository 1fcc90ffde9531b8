#include "ep/spectral_basis.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/arch.h"
#include "base/buffer.h"
#include "base/parallel.h"
#include "ep/numbers.h"
#include "kernels/fourier/transform.h"

namespace ortconv::ep {
namespace {

using kernels::SpectralParts;
using Numbers64 = std::vector<double>;

constexpr double kResemblance = 0.02;  // share of energy beside the fitted filters
constexpr int kSample = 8;             // frequencies at which candidates for n_fft are compared
constexpr double kSmallest = 1.0 / 1024;
constexpr int kRounds = 40;

double rounded(DataType dtype, double value) {
  if (dtype == DataType::kFloat16) return to_double(rounded_to<Float16>(value));
  return static_cast<double>(static_cast<float>(value));
}

// Rows of filters and of the table of cosines and sines that they may be products of.
struct Rows {
  int64_t count, taps;
  Numbers64 data, table;
};

// Cosines and sines of one length; zeros are exact.
class Table {
 public:
  Table(int64_t n_fft, SpectralParts parts, int64_t bins) : n_fft_(n_fft), parts_(parts), bins_(bins) {
    const double step = 2 * std::acos(-1.0) / static_cast<double>(n_fft);
    for (int64_t i = 0; i < n_fft; ++i) {
      const double phase = step * static_cast<double>(i);
      cosines_.push_back(4 * i % (2 * n_fft) == n_fft ? 0 : std::cos(phase));
      sines_.push_back(2 * i % n_fft == 0 ? 0 : std::sin(phase));
    }
  }

  Rows rows(const Filters& filters, const std::vector<int64_t>& numbers) const {
    Rows rows{static_cast<int64_t>(numbers.size()), filters.taps, {}, {}};
    for (const int64_t row : numbers) {
      const double* const data = filters.data.data() + row * filters.taps;
      rows.data.insert(rows.data.end(), data, data + filters.taps);
      const Numbers64& waves = row >= bins_ || parts_ == SpectralParts::kSines ? sines_ : cosines_;
      const int64_t frequency = (row >= bins_ ? row - bins_ : row) % n_fft_;
      int64_t at = 0;
      for (int64_t j = 0; j < filters.taps; ++j) {
        rows.table.push_back(waves[at]);
        at += frequency;
        if (at >= n_fft_) at -= n_fft_;
      }
    }
    return rows;
  }

 private:
  int64_t n_fft_;
  SpectralParts parts_;
  int64_t bins_;
  Numbers64 cosines_, sines_;
};

// The quotients, and 0 where a denominator is nothing beside the others.
Numbers64 quotients(Numbers64 numerators, const Numbers64& denominators) {
  double most = 0;
  for (const double each : denominators) most = std::max(most, each);
  for (size_t i = 0; i < numerators.size(); ++i) {
    numerators[i] = denominators[i] > 1e-18 * most ? numerators[i] / denominators[i] : 0;
  }
  return numerators;
}

// The window divided by its largest element, which becomes 1.
void normalize(Numbers64* window) {
  double largest = 0;
  for (const double each : *window) {
    if (std::abs(each) > std::abs(largest)) largest = each;
  }
  if (largest == 0) return;
  for (double& each : *window) each /= largest;
}

Numbers64 gains_of(const Rows& rows, const Numbers64& window) {
  Numbers64 numerators, denominators;
  for (int64_t r = 0; r < rows.count; ++r) {
    double numerator = 0, denominator = 0;
    for (int64_t j = 0; j < rows.taps; ++j) {
      const double wave = rows.table[r * rows.taps + j] * window[j];
      numerator += rows.data[r * rows.taps + j] * wave, denominator += wave * wave;
    }
    numerators.push_back(numerator), denominators.push_back(denominator);
  }
  return quotients(std::move(numerators), denominators);
}

// The window to which filters are nearest, given their gains and what each counts.
void add_window(const Rows& rows, const Numbers64& gains, const Numbers64& weights, Numbers64* numerators,
                Numbers64* denominators) {
  for (int64_t r = 0; r < rows.count; ++r) {
    const double weight = weights.empty() ? 1 : weights[r] * weights[r];
    for (int64_t j = 0; j < rows.taps; ++j) {
      const double wave = gains[r] * rows.table[r * rows.taps + j];
      (*numerators)[j] += weight * wave * rows.data[r * rows.taps + j];
      (*denominators)[j] += weight * wave * wave;
    }
  }
}

// The share of the energy that is not that of the fitted filters.
double rest_of(const Rows& rows, const Numbers64& window) {
  const Numbers64 gains = gains_of(rows, window);
  double rest = 0, all = 0;
  for (int64_t r = 0; r < rows.count; ++r) {
    for (int64_t j = 0; j < rows.taps; ++j) {
      const double value = rows.data[r * rows.taps + j];
      const double difference = value - gains[r] * window[j] * rows.table[r * rows.taps + j];
      rest += difference * difference, all += value * value;
    }
  }
  return rest / std::max(all, std::numeric_limits<double>::min());
}

// The window, up to a factor; `from_first`: the first filter may be a multiple of it.
Numbers64 window_of(const Rows& rows, bool from_first) {
  Numbers64 energy(rows.taps), waves(rows.taps);
  double first = 0, all = 0;
  for (int64_t r = 0; r < rows.count; ++r) {
    for (int64_t j = 0; j < rows.taps; ++j) {
      const double value = rows.data[r * rows.taps + j], wave = rows.table[r * rows.taps + j];
      energy[j] += value * value, waves[j] += wave * wave;
      all += value * value;
      if (r == 0) first += value * value;
    }
  }
  Numbers64 window = quotients(std::move(energy), waves);
  for (double& each : window) each = std::sqrt(each);
  if (from_first && first > 0.01 * all / static_cast<double>(rows.count)) {
    window.assign(rows.data.begin(), rows.data.begin() + rows.taps);
  }
  double last = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    Numbers64 numerators(rows.taps), denominators(rows.taps);
    add_window(rows, gains_of(rows, window), {}, &numerators, &denominators);
    window = quotients(std::move(numerators), denominators);
    normalize(&window);
    const double rest = rest_of(rows, window);
    if (!(rest < 0.9 * last)) break;
    last = rest;
  }
  return window;
}

double largest_of(const Filters& filters, int64_t row) {
  double largest = 0;
  for (int64_t j = 0; j < filters.taps; ++j) {
    largest = std::max(largest, std::abs(filters.data[row * filters.taps + j]));
  }
  return largest;
}

// What the filters may be: every sine is zero where it starts, and so is the sine of frequency 0.
std::vector<SpectralParts> possible_parts(const Filters& filters, double largest) {
  const double zero = largest / 256;
  const auto starts = [&](int64_t row) { return std::abs(filters.data[row * filters.taps]) > zero; };
  const auto none_starts = [&](int64_t from) {
    for (int64_t row = from; row < filters.count; ++row) {
      if (starts(row)) return false;
    }
    return true;
  };
  const int64_t middle = filters.count / 2;
  std::vector<SpectralParts> parts;
  if (filters.count % 2 == 0 && largest_of(filters, middle) <= zero && none_starts(middle)) {
    parts.push_back(SpectralParts::kBoth);
  }
  parts.push_back(SpectralParts::kCosines);
  if (largest_of(filters, 0) <= zero && none_starts(0)) parts.push_back(SpectralParts::kSines);
  return parts;
}

// The numbers of a few filters: the lowest, the highest, and some in between.
std::vector<int64_t> sample_of(int64_t bins, SpectralParts parts) {
  std::vector<int64_t> found = {0, 1, std::min<int64_t>(2, bins - 1), std::max<int64_t>(bins - 2, 0)};
  for (int i = 0; i < kSample; ++i) {
    found.push_back(std::llround(static_cast<double>(bins - 1) * i / (kSample - 1)));
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  const size_t count = found.size();
  for (size_t i = 0; parts == SpectralParts::kBoth && i < count; ++i) found.push_back(bins + found[i]);
  return found;
}

// Candidates for n_fft: from the number of filters and taps, and from where the spectra have their peak.
std::vector<int64_t> lengths_of(const Filters& filters, int64_t bins) {
  const int64_t taps = filters.taps, size = 16 * taps;
  int64_t power = 1;
  while (power < taps) power *= 2;
  std::vector<int64_t> all = {2 * (bins - 1), taps, bins, 2 * bins - 1, 2 * bins, power};
  const auto& kernel = kernels::get_fourier_kernel<double>(ArchFlags::host());
  const auto plan = kernel.make_plan(size, kernels::FourierKind::kReal);
  const Buffer scratch(kernels::fourier_scratch_bytes(kernel, size, 1, 1));
  Numbers64 spectrum((size / 2 + 1) * 2);
  for (const int64_t frequency : {bins - 1, bins - 2, bins / 2, bins / 4}) {
    if (frequency < 1 || largest_of(filters, frequency) == 0) continue;
    kernels::FourierRows<double> rows{};
    rows.inner = 1, rows.size = taps, rows.count = size / 2 + 1, rows.x_parts = 1, rows.y_parts = 2;
    rows.x = filters.data.data() + frequency * taps;
    rows.y = spectrum.data();
    kernels::fourier_transform(kernel, *plan, rows, 1, scratch.as<void>(), serial());
    int64_t peak = 0;
    double most = -1;
    for (int64_t bin = 0; bin <= size / 2; ++bin) {
      const double power_of_bin = spectrum[2 * bin] * spectrum[2 * bin] + spectrum[2 * bin + 1] * spectrum[2 * bin + 1];
      if (power_of_bin > most) most = power_of_bin, peak = bin;
    }
    if (peak == 0) continue;
    const double length = static_cast<double>(frequency * size) / static_cast<double>(peak);
    const int64_t slack = std::min<int64_t>(1 + static_cast<int64_t>(length / static_cast<double>(peak)), 4);
    for (int64_t each = static_cast<int64_t>(length) - slack; each < static_cast<int64_t>(length) + slack + 2; ++each) {
      all.push_back(each);
    }
  }
  std::vector<int64_t> lengths;
  for (const int64_t each : all) {
    const bool is_new = std::find(lengths.begin(), lengths.end(), each) == lengths.end();
    if (is_new && each >= std::max({taps, bins, kLeastTaps})) lengths.push_back(each);
  }
  return lengths;
}

int64_t bins_of(const Filters& filters, SpectralParts parts) {
  return parts == SpectralParts::kBoth ? filters.count / 2 : filters.count;
}

}  // namespace

double distance_limit(DataType dtype) { return dtype == DataType::kFloat16 ? 3.2 * 0x1p-12 : 64 * 0x1p-24; }

Basis complete_basis(const Filters& filters, int64_t n_fft, SpectralParts parts, const std::vector<double>& window) {
  const Table table(n_fft, parts, bins_of(filters, parts));
  double largest = 0;
  for (const double each : filters.data) largest = std::max(largest, std::abs(each));
  const double floor = largest * kSmallest;
  Numbers64 numerators(filters.taps), denominators(filters.taps);
  for (int64_t row = 0; row < filters.count; ++row) {
    const Rows one = table.rows(filters, {row});
    // Each filter counts by its own size: rounding is relative to that.
    const double weight = 1 / std::max(largest_of(filters, row), floor);
    add_window(one, gains_of(one, window), {weight}, &numerators, &denominators);
  }
  Basis basis{n_fft, parts, quotients(std::move(numerators), denominators), {}, 0};
  normalize(&basis.window);
  for (double& each : basis.window) each = rounded(filters.dtype, each);
  for (int64_t row = 0; row < filters.count; ++row) {
    const Rows one = table.rows(filters, {row});
    const double gain = rounded(filters.dtype, gains_of(one, basis.window)[0]);
    basis.gains.push_back(gain);
    double difference = 0;
    bool is_zero = true;
    for (int64_t j = 0; j < filters.taps; ++j) {
      const double wave = one.table[j] * basis.window[j];
      is_zero = is_zero && wave == 0;
      difference = std::max(difference, std::abs(one.data[j] - gain * wave));
    }
    // A filter whose basis function is all zero, as the sine of frequency 0, is noise beside the others.
    basis.distance =
        std::max(basis.distance, difference / (is_zero ? largest : std::max(largest_of(filters, row), floor)));
  }
  return basis;
}

std::optional<Basis> fit_basis(const Filters& filters) {
  if (filters.count < kLeastFilters || filters.taps < kLeastTaps) return std::nullopt;
  double largest = 0;
  for (const double each : filters.data) {
    if (!std::isfinite(each)) return std::nullopt;
    largest = std::max(largest, std::abs(each));
  }
  if (largest == 0) return std::nullopt;
  std::optional<Basis> best;
  double least = kResemblance;
  for (const SpectralParts parts : possible_parts(filters, largest)) {
    const int64_t bins = bins_of(filters, parts);
    for (const int64_t n_fft : lengths_of(filters, bins)) {
      const Rows rows = Table(n_fft, parts, bins).rows(filters, sample_of(bins, parts));
      Numbers64 window = window_of(rows, parts != SpectralParts::kSines);
      const double rest = rest_of(rows, window);
      if (rest < least) least = rest, best = Basis{n_fft, parts, std::move(window), {}, 0};
    }
  }
  if (!best) return std::nullopt;
  return complete_basis(filters, best->n_fft, best->parts, best->window);
}

}  // namespace ortconv::ep
