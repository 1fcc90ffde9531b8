// Rows of cells, written left to right in steps of kStep; a step may run over into what is written next, by up to
// kCopyOverrun cells.
#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/conv/geometry.h"

namespace ortconv::kernels {

constexpr int64_t kStep = kCopyOverrun + 1;

// Rows that the library's own copy, for the vectors of this CPU, is worth a call for.
constexpr int64_t kLongRow = 24;

template <class Cell>
void zero_cells(Cell* dst, int64_t n) {
  constexpr Cell kZeros[kStep] = {};
  for (int64_t i = 0; i < n; i += kStep) std::memcpy(dst + i, kZeros, sizeof(kZeros));
}

// Reads and writes nothing beyond n.
template <class Cell>
void copy_cells(const Cell* src, int64_t n, Cell* dst) {
  if (n < kStep) {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i];
    return;
  }
  if (n >= kLongRow) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(Cell));
    return;
  }
  for (int64_t i = 0; i < n - kStep; i += kStep) std::memcpy(dst + i, src + i, kStep * sizeof(Cell));
  std::memcpy(dst + n - kStep, src + n - kStep, kStep * sizeof(Cell));
}

// Cells from elements next to each other, likewise.
template <class T>
void load_cells(const ToFloatKernel& kernel, const T* src, int64_t n, Sum<T>* dst) {
  if constexpr (std::is_same_v<T, Sum<T>>) {
    copy_cells(src, n, dst);
  } else {
    kernel.run(src, n, dst);
  }
}

}  // namespace ortconv::kernels
