// Short-time Fourier transforms of whole tensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/parallel.h"
#include "kernels/fourier/fourier.h"

namespace ortconv::kernels {

// Which channels a spectrum has: cosine channels, then sine channels; or one of them.
enum class SpectralParts { kBoth = 0, kCosines = 1, kSines = 2 };

struct StftProblem {
  int64_t batch;
  int64_t n_fft;   // 0: frames are added up without a transform; `bins` is `taps`, and `parts` is not read
  FrameGrid grid;  // of the signal, whose length may leave no room for a frame, or more than the frames reach
  SpectralParts parts;
};

// Sums do not depend on the number of threads. `scratch` has as many bytes as stft_scratch_bytes() says for the same
// threads, and is aligned to 64 bytes.
template <class T>
size_t stft_scratch_bytes(const FourierKernel<T>& kernel, const StftProblem& problem, int threads);

// signal [batch, length] to spectrum [batch, channels, frames]. Window [taps] and gains [channels] are as in the ops.
template <class T>
void forward_stft(const FourierKernel<T>& kernel, const FourierPlan& plan, const StftProblem& problem, const T* signal,
                  const T* window, const T* gains, T* spectrum, void* scratch, const Parallel& parallel);

// Spectrum [batch, channels, frames], or where `sines` is not null [batch, bins, frames] each, to signal. Without a
// plan, spectrum is frames [batch, taps, frames], and there are no gains.
template <class T>
void inverse_stft(const FourierKernel<T>& kernel, const FourierPlan* plan, const StftProblem& problem,
                  const T* spectrum, const T* sines, const T* window, const T* gains, T* signal, void* scratch,
                  const Parallel& parallel);

}  // namespace ortconv::kernels
