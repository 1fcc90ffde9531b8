#include "kernels/fourier/stft.h"

#include <algorithm>
#include <type_traits>

#include "base/math.h"
#include "base/ranges.h"

namespace ortconv::kernels {
namespace {

// Positions of a signal that are summed up at once where sums are not what the tensor stores.
constexpr int64_t kSums = 1 << 14;
// Frames that are worth a work item.
constexpr int64_t kItemFrames = 64;

int64_t channels_of(const StftProblem& p) {
  if (p.n_fft == 0) return 0;
  return p.parts == SpectralParts::kBoth ? 2 * p.grid.bins : p.grid.bins;
}

// Window and gains as sums: those of the caller, or copies at the begin of the scratch.
template <class T>
struct Factors {
  const Sum<T>*window, *cosine_gains, *sine_gains;

  Factors(const StftProblem& p, const T* given_window, const T* given_gains, void* scratch) {
    const Sum<T>* gains;
    if constexpr (std::is_same_v<T, Sum<T>>) {
      window = given_window, gains = given_gains;
    } else {
      auto* const copy = static_cast<Sum<T>*>(scratch);
      for (int64_t j = 0; j < p.grid.taps; ++j) copy[j] = widen(given_window[j]);
      for (int64_t c = 0; c < channels_of(p); ++c) copy[p.grid.taps + c] = widen(given_gains[c]);
      window = copy, gains = copy + p.grid.taps;
    }
    cosine_gains = gains;
    sine_gains = p.parts == SpectralParts::kBoth && gains != nullptr ? gains + p.grid.bins : gains;
  }

  static size_t bytes(const StftProblem& p) {
    if (std::is_same_v<T, Sum<T>>) return 0;
    return align64(static_cast<size_t>(p.grid.taps + channels_of(p)) * sizeof(Sum<T>));
  }
};

template <class T>
constexpr size_t kSumBytes = std::is_same_v<T, Sum<T>> ? 0 : kSums * sizeof(Sum<T>);

template <class T>
size_t bytes_of_a_thread(const FourierKernel<T>& kernel, const StftProblem& p) {
  return align64(kernel.frame_scratch(p.n_fft, p.grid)) + kSumBytes<T>;
}

// Calls fn(item, memory) for every item, with memory of one thread.
template <class Fn>
void for_each_item(int64_t items, char* memory, size_t bytes, const Parallel& parallel, Fn fn) {
  const int64_t threads = std::clamp<int64_t>(items, 1, std::max(parallel.threads, 1));
  if (threads == 1) {
    for (int64_t item = 0; item < items; ++item) fn(item, memory);
    return;
  }
  Ranges ranges(items, 1, 1, threads);
  for_each(parallel, threads, [&](int64_t thread) {
    char* const own = memory + static_cast<size_t>(thread) * bytes;
    ranges.for_each_item([&](int64_t item) { fn(item, own); });
  });
}

}  // namespace

template <class T>
size_t stft_scratch_bytes(const FourierKernel<T>& kernel, const StftProblem& p, int threads) {
  // No run has more items of frames, or of positions, than this.
  const int64_t frames = p.grid.frames / kItemFrames + 1, positions = p.grid.length / kSums + 1;
  const int64_t items = p.batch * std::max(frames, positions);
  return Factors<T>::bytes(p) +
         static_cast<size_t>(std::clamp<int64_t>(items, 1, std::max(threads, 1))) * bytes_of_a_thread(kernel, p);
}

template <class T>
void forward_stft(const FourierKernel<T>& kernel, const FourierPlan& plan, const StftProblem& p, const T* signal,
                  const T* window, const T* gains, T* spectrum, void* scratch, const Parallel& parallel) {
  const FrameGrid& grid = p.grid;
  if (p.batch == 0 || grid.frames == 0) return;
  const Factors<T> factors(p, window, gains, scratch);
  const int64_t pieces = ceil_div(grid.frames, kItemFrames);
  for_each_item(p.batch * pieces, static_cast<char*>(scratch) + Factors<T>::bytes(p), bytes_of_a_thread(kernel, p),
                parallel, [&](int64_t item, char* memory) {
                  const int64_t image = item / pieces, first = item % pieces * kItemFrames;
                  T* const cosines = spectrum + image * channels_of(p) * grid.frames;
                  T* const sines = p.parts == SpectralParts::kBoth ? cosines + grid.bins * grid.frames : cosines;
                  kernel.forward(plan,
                                 {grid, factors.window, factors.cosine_gains, factors.sine_gains,
                                  signal + image * grid.length, p.parts == SpectralParts::kSines ? nullptr : cosines,
                                  p.parts == SpectralParts::kCosines ? nullptr : sines, first,
                                  std::min(first + kItemFrames, grid.frames)},
                                 memory);
                });
}

template <class T>
void inverse_stft(const FourierKernel<T>& kernel, const FourierPlan* plan, const StftProblem& p, const T* spectrum,
                  const T* sines, const T* window, const T* gains, T* signal, void* scratch, const Parallel& parallel) {
  const FrameGrid& grid = p.grid;
  if (p.batch == 0 || grid.length == 0) return;
  const Factors<T> factors(p, window, gains, scratch);
  constexpr bool kIsSummedInPlace = std::is_same_v<T, Sum<T>>;
  // Frames that reach into a piece of the signal, but begin before it, are transformed for both pieces.
  const int64_t shared = grid.taps / grid.hop;
  const int64_t wanted = std::max(kItemFrames, 8 * shared);
  const int64_t share = ceil_div(p.batch * grid.frames, 2 * int64_t{std::max(parallel.threads, 1)});
  const int64_t frames = parallel.threads <= 1 ? grid.frames : std::clamp(share, wanted, std::max(wanted, grid.frames));
  int64_t size = frames > 0 && grid.hop <= grid.length / frames ? frames * grid.hop : grid.length;
  if (parallel.threads <= 1) size = grid.length;
  if (!kIsSummedInPlace) size = std::min(size, kSums);
  const int64_t pieces = ceil_div(grid.length, size);
  const bool has_cosines = p.n_fft == 0 || p.parts != SpectralParts::kSines;
  const bool has_sines = p.n_fft > 0 && p.parts != SpectralParts::kCosines;
  const int64_t channels = p.n_fft == 0 ? grid.taps : sines != nullptr ? grid.bins : channels_of(p);
  for_each_item(p.batch * pieces, static_cast<char*>(scratch) + Factors<T>::bytes(p), bytes_of_a_thread(kernel, p),
                parallel, [&](int64_t item, char* memory) {
                  const int64_t image = item / pieces, from = item % pieces * size;
                  const int64_t count = std::min(size, grid.length - from);
                  T* const target = signal + image * grid.length + from;
                  Sum<T>* sums;
                  if constexpr (kIsSummedInPlace) {
                    sums = target;
                  } else {
                    sums = reinterpret_cast<Sum<T>*>(memory);
                  }
                  std::fill_n(sums, count, Sum<T>());
                  const int64_t begin = from + grid.padding, end = begin + count;
                  const int64_t earliest = begin < grid.taps ? 0 : (begin - grid.taps) / grid.hop + 1;
                  const int64_t first = earliest / kernel.lanes * kernel.lanes;
                  const int64_t last = std::min(grid.frames, ceil_div(end, grid.hop));
                  const T* const part = spectrum + image * channels * grid.frames;
                  const T* other = part;
                  if (sines != nullptr) {
                    other = sines + image * channels * grid.frames;
                  } else if (p.parts == SpectralParts::kBoth) {
                    other = part + grid.bins * grid.frames;
                  }
                  kernel.add_frames(
                      plan,
                      {grid, factors.window, factors.cosine_gains, factors.sine_gains, has_cosines ? part : nullptr,
                       has_sines ? other : nullptr, first, last, sums, begin, end},
                      memory + kSumBytes<T>);
                  if constexpr (!kIsSummedInPlace) {
                    for (int64_t i = 0; i < count; ++i) round_to(target + i, sums[i]);
                  }
                });
}

#define INSTANTIATE(T)                                                                                            \
  template size_t stft_scratch_bytes(const FourierKernel<T>&, const StftProblem&, int);                           \
  template void forward_stft(const FourierKernel<T>&, const FourierPlan&, const StftProblem&, const T*, const T*, \
                             const T*, T*, void*, const Parallel&);                                               \
  template void inverse_stft(const FourierKernel<T>&, const FourierPlan*, const StftProblem&, const T*, const T*, \
                             const T*, const T*, T*, void*, const Parallel&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels
