// The Fourier kernels of one instruction set. A file named after it defines ORTCONV_FOURIER_ISA, its namespace, and
// ORTCONV_FOURIER_VECTOR_BYTES, and includes this once.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/math.h"
#include "kernels/fourier/fourier.h"
#include "kernels/unroll.h"

// Its inline functions are compiled for this instruction set, so they need names of their own.
#define ORTCONV_FOURIER_JOIN(a, b) a##b
#define ORTCONV_FOURIER_NAMED(isa) ORTCONV_FOURIER_JOIN(ortconv_pocketfft_, isa)
#define pocketfft ORTCONV_FOURIER_NAMED(ORTCONV_FOURIER_ISA)
#include "kernels/fourier/pocketfft.h"

namespace ortconv::kernels::fourier::ORTCONV_FOURIER_ISA {

namespace fft = pocketfft::detail;

#include "kernels/fourier/lanes.h"

#if defined(__GNUC__)
template <class S>
constexpr int kLanes = ORTCONV_FOURIER_VECTOR_BYTES / sizeof(S);
#else
template <class S>
constexpr int kLanes = 1;
#endif
template <class S>
using Vector = typename VectorOf<S, kLanes<S>>::Type;

// Vectors of a tensor's elements.

template <class T, class S = Sum<T>>
ORTCONV_ALWAYS_INLINE inline Vector<S> load(const T* from) {
  Vector<S> v;
  if constexpr (std::is_same_v<T, S>) {
    std::memcpy(&v, from, sizeof v);
  } else {
    S wide[kLanes<S>];
    for (int i = 0; i < kLanes<S>; ++i) wide[i] = widen(from[i]);
    std::memcpy(&v, wide, sizeof v);
  }
  return v;
}

// The first `count`; the others are zero.
template <class T, class S = Sum<T>>
inline Vector<S> load_first(const T* from, int64_t count) {
  S wide[kLanes<S>] = {};
  for (int64_t i = 0; i < count; ++i) wide[i] = widen(from[i]);
  Vector<S> v;
  std::memcpy(&v, wide, sizeof v);
  return v;
}

template <class T, class S = Sum<T>>
ORTCONV_ALWAYS_INLINE inline void store(T* to, Vector<S> v) {
  if constexpr (std::is_same_v<T, S>) {
    std::memcpy(to, &v, sizeof v);
  } else {
    S wide[kLanes<S>];
    std::memcpy(wide, &v, sizeof v);
    for (int i = 0; i < kLanes<S>; ++i) round_to(to + i, wide[i]);
  }
}

template <class T, class S = Sum<T>>
inline void store_first(T* to, Vector<S> v, int64_t count) {
  S wide[kLanes<S>];
  std::memcpy(wide, &v, sizeof v);
  for (int64_t i = 0; i < count; ++i) round_to(to + i, wide[i]);
}

// A plan whose vectors are the lanes. Real ones hold a spectrum as r0, r1, i1, r2, i2 ...
template <class S>
class Plan : public FourierPlan {
 public:
  Plan(int64_t length, FourierKind kind) : FourierPlan(length) {
    const auto n = static_cast<size_t>(length);
    const bool is_real = kind == FourierKind::kReal;
    if (use_bluestein(n, is_real)) {
      bluestein_ = std::make_unique<fft::fftblue<S>>(n);
    } else if (is_real) {
      real_ = std::make_unique<fft::rfftp<S>>(n);
    } else {
      complex_ = std::make_unique<fft::cfftp<S>>(n);
    }
  }

  // In place; `other` has room for as much. U is V, or S for one row alone.
  template <class U>
  void real(U* data, bool is_forward, U* other) const {
    if (real_ != nullptr) {
      real_->exec(data, S(1), is_forward, other);
    } else {
      bluestein_->exec_r(data, S(1), is_forward);
    }
  }
  // Forward.
  template <class U>
  void complex(fft::cmplx<U>* data, fft::cmplx<U>* other) const {
    if (complex_ != nullptr) {
      complex_->exec(data, S(1), other);
    } else {
      bluestein_->exec(data, S(1), true);
    }
  }

 private:
  // As pocketfft decides: where a large prime factor takes longer.
  static bool use_bluestein(size_t n, bool is_real) {
    const size_t factor = n < 50 ? 0 : fft::util::largest_prime_factor(n);
    if (factor * factor <= n) return false;
    const double direct = (is_real ? 0.5 : 1.0) * fft::util::cost_guess(n);
    return 3 * fft::util::cost_guess(fft::util::good_size_cmplx(2 * n - 1)) < direct;
  }

  std::unique_ptr<fft::rfftp<S>> real_;
  std::unique_ptr<fft::cfftp<S>> complex_;
  std::unique_ptr<fft::fftblue<S>> bluestein_;
};

template <class S>
std::unique_ptr<FourierPlan> make_plan(int64_t length, FourierKind kind) {
  return std::make_unique<Plan<S>>(length, kind);
}

#include "kernels/fourier/frames_loops.h"
#include "kernels/fourier/rows_loops.h"

template <class T>
const FourierKernel<T>& kernel(const char* name) {
  using S = Sum<T>;
  static const FourierKernel<T> all = {name,           kLanes<S>,     make_plan<S>,     frame_scratch<S>,
                                       row_scratch<S>, forward<T, S>, add_frames<T, S>, transform<T, S>};
  return all;
}

}  // namespace ortconv::kernels::fourier::ORTCONV_FOURIER_ISA
