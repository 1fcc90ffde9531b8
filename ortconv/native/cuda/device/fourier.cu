// A pass of Fourier transforms: loads columns into shared memory, transforms them there, and stores them. See
// params/fourier.h; ELEMENT and DOUBLE are as in reals.h.

#include "cuda/device/fourier_load.h"
#include "cuda/device/fourier_stages.h"
#include "cuda/device/fourier_store.h"

namespace ortconv {
namespace cuda {

// exp(-2 pi i power / elements of a transform).
__device__ inline Complex twiddle(const FourierPass& p, long long power) {
  const Complex coarse = static_cast<const Complex*>(p.coarse)[power >> p.fine_bits];
  return multiply(coarse, static_cast<const Complex*>(p.fine)[power & ((1 << p.fine_bits) - 1)]);
}

// An element of a group of columns, counted along columns or across them.
struct Place {
  int column, element;

  __device__ Place(int i, int columns, int length, int by_columns) {
    column = by_columns != 0 ? i % columns : i / length;
    element = by_columns != 0 ? i / columns : i % length;
  }
};

// The columns from `first` on.
__device__ inline void load_columns(const FourierPass& p, long long first, int count, Complex* to) {
  for (int i = threadIdx.x; i < count * p.length; i += kFourierThreads) {
    const Place at(i, count, p.length, p.load_by_columns);
    const long long column = first + at.column;
    const long long element = column % p.columns + p.columns * at.element;
    to[at.column * p.pitch + at.element] = load_element(p, p.first + column / p.columns, element);
  }
}

__device__ inline void multiply_spectra(const FourierPass& p, int count, Complex* data) {
  const Complex* const factors = static_cast<const Complex*>(p.middle);
  for (int i = threadIdx.x; i < count * p.length; i += kFourierThreads) {
    Complex* const at = data + i / p.length * p.pitch + i % p.length;
    *at = swapped(multiply(*at, factors[i % p.length]));
  }
}

__device__ inline void store_columns(const FourierPass& p, long long first, int count, const Complex* from) {
  for (int i = threadIdx.x; i < count * p.length; i += kFourierThreads) {
    const Place at(i, count, p.length, p.store_by_columns);
    const long long column = first + at.column;
    const long long of_row = column % p.columns, position = of_row / p.stride;
    Complex value = from[at.column * p.pitch + at.element];
    if (p.coarse != nullptr) value = multiply(value, twiddle(p, position * at.element * p.stride));
    const long long element = of_row % p.stride + p.stride * (p.length * position + at.element);
    store_element(p, p.first + column / p.columns, element, value);
  }
}

}  // namespace cuda
}  // namespace ortconv

KERNEL(fourier, ortconv::cuda::FourierPass, ortconv::cuda::kFourierThreads, 2) {
  using namespace ortconv::cuda;
  const FourierPass& p = params;
  Complex* const first_half = reinterpret_cast<Complex*>(shared_memory());
  Complex* const second_half = first_half + p.group * p.pitch;
  const long long columns = p.rows * p.columns;
  const long long step = static_cast<long long>(gridDim.x) * p.group;
  for (long long first = static_cast<long long>(blockIdx.x) * p.group; first < columns; first += step) {
    const int count = columns - first < p.group ? static_cast<int>(columns - first) : p.group;
    load_columns(p, first, count, first_half);
    __syncthreads();
    Complex* result = run_stages(p, count, first_half, second_half);
    if (p.middle != nullptr) {
      multiply_spectra(p, count, result);
      __syncthreads();
      result = run_stages(p, count, result, result == first_half ? second_half : first_half);
    }
    store_columns(p, first, count, result);
    __syncthreads();
  }
}
