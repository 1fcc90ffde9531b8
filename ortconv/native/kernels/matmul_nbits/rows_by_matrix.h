// Rows in groups by which of several compressed matrices they are multiplied by.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/matmul_nbits/matmul_nbits.h"

namespace ortconv::kernels {

struct RowsByMatrix {
  RowGroups rows;                       // a group for each matrix that is named
  std::vector<int64_t> without_matrix;  // rows of y that name none
};

// Row i of y names matrix index[i] of so many, each of n rows, which lie one after the other in one QuantizedMatrix.
// Another number than 0 .. matrices - 1 names none.
RowsByMatrix rows_by_matrix(const int64_t* index, int64_t count, int64_t sharing, int64_t matrices, int64_t n);

}  // namespace ortconv::kernels
