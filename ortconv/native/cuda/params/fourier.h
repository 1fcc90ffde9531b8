// Arguments of the Fourier kernels (see fourier_plan.h), shared by host and device. NVRTC compiles this header without
// any other, so it includes nothing.
#pragma once

namespace ortconv {
namespace cuda {

// Where a pass loads its numbers from and stores them to: options LOAD and STORE of the program.
constexpr int kComplexNumbers = 0;  // complex numbers in scratch memory, [transform][element]
constexpr int kAxis = 1;            // an axis of a tensor, [outer, size, inner, 1 or 2 parts]
constexpr int kSignal = 2;          // loads frames of signals, times a window
constexpr int kSpectra = 3;         // spectra [batch, channels, frames], times gains
constexpr int kFrames = 4;          // stores real frames, times a window, in scratch memory, [transform][tap]

constexpr int kFourierThreads = 256;

// A step of a fast Fourier transform in shared memory: `radix` elements at a time. `stride` is the product of the
// radices of earlier stages.
struct FourierStage {
  int radix, stride;
};
constexpr int kMostStages = 16;

// Axes of transforms in a tensor.
struct FourierAxis {
  long long inner, size, count;  // size: of the axis in X; count: in Y
  int x_parts, y_parts;
  int hermitian;  // X holds the first half of a Hermitian spectrum
  double scale;
};

// Frame t of a signal begins at position t * hop - padding.
struct FourierFrames {
  long long frames, hop, padding, length;  // length: of the signal
  long long taps, bins;
  long long image;  // distance of the spectra of one image and the next
  int has_cosines, has_sines;
};

// One pass over transforms of `columns * length` elements, by the algorithm of Stockham. `length` elements of each, at
// distances of `columns`, are transformed in shared memory. `stride` is the product of the lengths of earlier passes: a
// transform of one pass has one column and the stride 1.
//
// Null tables are not applied. With `middle`, the pass is a circular convolution: two transforms, between which the
// spectrum is multiplied, and its parts are swapped. Swapped parts make the inverse transform a forward one.
struct FourierPass {
  const void* src;
  void* dst;
  const void* window;
  const void* gains;
  const void* sines;   // of spectra, where they are a tensor of their own
  const void* roots;   // exp(-2 pi i k / length)
  const void* coarse;  // exp(-2 pi i k 2^fine_bits / elements)
  const void* fine;    // exp(-2 pi i k / elements), for k < 2^fine_bits
  const void* before;  // factors of what is loaded
  const void* middle;
  const void* after;         // factors of what is stored
  long long first, rows;     // the transforms of this launch
  long long columns;         // of a transform
  long long stride;          // the product of the lengths of earlier passes
  long long given, wanted;   // elements of a transform that are loaded, the others being 0, and stored
  long long transform_size;  // the length of the transforms that the operator defines
  int length;
  int group, pitch;  // columns of a block at a time, and their distance in shared memory
  int fine_bits;
  int load_by_columns, store_by_columns;        // neighbouring threads access neighbouring columns
  int swap_loaded, swap_results, swap_storing;  // parts of what is loaded, and before and after `after` is applied
  int stages;
  FourierStage stage[kMostStages];
  FourierAxis axis;
  FourierFrames frames;
};

// dst[image][position] = sum over t of window[j] * frames[image][t][j], where j = position + padding - t * hop.
struct OverlapAdd {
  const void* src;
  const void* window;  // null: 1
  void* dst;
  long long batch, length;  // of the signals
  long long frames, taps, hop, padding;
  long long image, frame, tap;  // distances in src
};

}  // namespace cuda
}  // namespace ortconv
