// Discrete Fourier transforms of a few numbers in registers.
#pragma once

#include "cuda/device/complex.h"

namespace ortconv {
namespace cuda {

__device__ inline void transform(Complex (&v)[2]) {
  const Complex difference = subtract(v[0], v[1]);
  v[0] = add(v[0], v[1]);
  v[1] = difference;
}

__device__ inline void transform(Complex (&v)[4]) {
  const Complex a = add(v[0], v[2]), b = subtract(v[0], v[2]);
  const Complex c = add(v[1], v[3]), d = turned(subtract(v[1], v[3]));
  v[0] = add(a, c), v[1] = add(b, d), v[2] = subtract(a, c), v[3] = subtract(b, d);
}

__device__ inline void transform(Complex (&v)[8]) {
  const Real half = static_cast<Real>(0.70710678118654752440);
  Complex even[4] = {v[0], v[2], v[4], v[6]}, odd[4] = {v[1], v[3], v[5], v[7]};
  transform(even);
  transform(odd);
  const Complex one = odd[1], three = odd[3];
  odd[1] = {half * (one.re + one.im), half * (one.im - one.re)};
  odd[2] = turned(odd[2]);
  odd[3] = {half * (three.im - three.re), -half * (three.re + three.im)};
#pragma unroll
  for (int k = 0; k < 4; ++k) v[k] = add(even[k], odd[k]), v[k + 4] = subtract(even[k], odd[k]);
}

// cos(2 pi k / kRadix) and sin(2 pi k / kRadix) for k from 1 to kRadix / 2.
template <int kRadix>
__device__ inline Complex root(int k) {
  if (kRadix == 3) return {static_cast<Real>(-0.5), static_cast<Real>(0.86602540378443864676)};
  if (kRadix == 5) {
    if (k == 1) return {static_cast<Real>(0.30901699437494742410), static_cast<Real>(0.95105651629515357212)};
    return {static_cast<Real>(-0.80901699437494742410), static_cast<Real>(0.58778525229247312917)};
  }
  if (k == 1) return {static_cast<Real>(0.62348980185873353053), static_cast<Real>(0.78183148246802980871)};
  if (k == 2) return {static_cast<Real>(-0.22252093395631440429), static_cast<Real>(0.97492791218182360702)};
  return {static_cast<Real>(-0.90096886790241912624), static_cast<Real>(0.43388373911755812048)};
}

// Of 3, 5 or 7 numbers: sums and differences of the pairs j and kRadix - j.
template <int kRadix>
__device__ inline void transform(Complex (&v)[kRadix]) {
  constexpr int kHalf = kRadix / 2;
  Complex sums[kHalf], differences[kHalf], first = v[0];
#pragma unroll
  for (int j = 0; j < kHalf; ++j) {
    sums[j] = add(v[j + 1], v[kRadix - 1 - j]);
    differences[j] = subtract(v[j + 1], v[kRadix - 1 - j]);
  }
#pragma unroll
  for (int j = 0; j < kHalf; ++j) first = add(first, sums[j]);
#pragma unroll
  for (int k = 1; k <= kHalf; ++k) {
    Complex even = v[0], odd = {0, 0};
#pragma unroll
    for (int j = 1; j <= kHalf; ++j) {
      const int turns = j * k % kRadix;
      const Complex factor = root<kRadix>(turns <= kHalf ? turns : kRadix - turns);
      const Real sine = turns <= kHalf ? factor.im : -factor.im;
      even.re += factor.re * sums[j - 1].re;
      even.im += factor.re * sums[j - 1].im;
      odd.re += sine * differences[j - 1].re;
      odd.im += sine * differences[j - 1].im;
    }
    odd = turned(odd);
    // v[0] is still that of before: the loop reads it.
    v[k] = add(even, odd);
    v[kRadix - k] = subtract(even, odd);
  }
  v[0] = first;
}

}  // namespace cuda
}  // namespace ortconv
