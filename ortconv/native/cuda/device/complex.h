// Complex numbers.
#pragma once

#include "cuda/device/reals.h"

namespace ortconv {
namespace cuda {

struct Complex {
  Real re, im;
};

__device__ inline Complex add(const Complex& a, const Complex& b) { return {a.re + b.re, a.im + b.im}; }
__device__ inline Complex subtract(const Complex& a, const Complex& b) { return {a.re - b.re, a.im - b.im}; }
__device__ inline Complex multiply(const Complex& a, const Complex& b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
__device__ inline Complex swapped(const Complex& a) { return {a.im, a.re}; }
// -i a.
__device__ inline Complex turned(const Complex& a) { return {a.im, -a.re}; }

}  // namespace cuda
}  // namespace ortconv
