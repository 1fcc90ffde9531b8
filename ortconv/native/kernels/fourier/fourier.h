// Fourier transforms of many rows or frames at once, a vector lane each: the steps of short-time transforms, and
// transforms of an axis.
//
// A new kernel supplies a function template `fourier_<isa>` for every T of ORTCONV_FLOAT_TYPES, instantiated in a file
// named after its ISA, and one row in kernels.inc. All of them are compiled from fourier_loops.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/arch.h"
#include "kernels/element.h"

namespace ortconv::kernels {

enum class FourierKind { kReal, kComplex };

// Transforms of one length: factors and twiddles. Any number of threads may use it.
class FourierPlan {
 public:
  explicit FourierPlan(int64_t transform_length) : length(transform_length) {}
  virtual ~FourierPlan() = default;

  const int64_t length;
};

// What both short-time transforms have in common. Frame t begins at position t * hop of the padded signal.
struct FrameGrid {
  int64_t taps;     // of the window, at most the length of the transform
  int64_t hop;      // at least 1
  int64_t bins;     // at most the length of the transform; for an overlap-add without a transform: taps
  int64_t frames;   // of the tensor of spectra, [bins, frames]
  int64_t padding;  // zeros in front of the signal
  int64_t length;   // of the signal
};

// Frames [first, last) of one signal to spectra: bin f of frame t is cosines[f * frames + t], or sines[...].
// Sums of products with cos(2 pi f j / n) or sin(2 pi f j / n), times a gain for each bin.
template <class T>
struct ForwardFrames {
  FrameGrid grid;
  const Sum<T>* window;
  const Sum<T>* cosine_gains;
  const Sum<T>* sine_gains;
  const T* signal;
  T* cosines;  // null: not wanted
  T* sines;    // null: not wanted
  int64_t first, last;
};

// Adds the frames [first, last) of spectra to the positions [begin, end) of the padded signal that they reach:
// sums[position - begin]. The sum of a position does not depend on begin, end and last, nor on `first` where that is a
// multiple of the kernel's lanes and not beyond the first frame that reaches the position.
template <class T>
struct InverseFrames {
  FrameGrid grid;
  const Sum<T>* window;
  const Sum<T>* cosine_gains;
  const Sum<T>* sine_gains;
  const T* cosines;  // null: none. Without a plan, the frames themselves [taps, frames], to which no gains are applied
  const T* sines;    // null: none
  int64_t first, last;
  Sum<T>* sums;
  int64_t begin, end;
};

// Transforms [first, last) of an array [outer, length, inner, 1 or 2 parts].
template <class T>
struct FourierRows {
  int64_t inner;
  int64_t size;   // of the axis in x; what is beyond those that are taken is not read
  int64_t count;  // of the axis in y
  int64_t x_parts, y_parts;
  bool is_inverse;  // scaled by 1 / length
  const T* x;
  T* y;
  int64_t first, last;  // outer * inner of them
};

template <class T>
struct FourierKernel {
  const char* name;
  int64_t lanes;
  std::unique_ptr<FourierPlan> (*make_plan)(int64_t length, FourierKind kind);

  // Memory, aligned to 64 bytes, that the functions below want.
  size_t (*frame_scratch)(int64_t length, const FrameGrid& grid);
  size_t (*row_scratch)(int64_t length, int64_t rows);  // for calls with up to so many rows

  // `plan` is real; for add_frames null where there is no transform.
  void (*forward)(const FourierPlan& plan, const ForwardFrames<T>& frames, void* scratch);
  void (*add_frames)(const FourierPlan* plan, const InverseFrames<T>& frames, void* scratch);

  // `plan` is real where x_parts or y_parts is 1, and complex otherwise. Real to real there is not; from a real axis
  // come `count` bins, and to a real axis go the first length / 2 + 1 of a Hermitian spectrum.
  void (*transform)(const FourierPlan& plan, const FourierRows<T>& rows, void* scratch);
};

// The best kernel for these flags; the portable one when no other fits.
template <class T>
const FourierKernel<T>& get_fourier_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels
