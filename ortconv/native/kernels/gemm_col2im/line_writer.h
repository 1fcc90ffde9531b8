// Writing the sums of a part to dst, line by line.
#pragma once

#include "kernels/gemm_col2im/item.h"

namespace ortconv::kernels::gemm_col2im {

// The sums of a part, what is still to be done to them, and where they go.
template <class T>
struct PartSums {
  using Cell = Sum<T>;

  Cell* sums;        // of each channel
  const Cell* bias;  // that is left to add; may be null
  Cell* gap;         // of each channel: what no tap reaches
  T* dst;            // the first position of the part in its first channel
};

// Writes all positions of the part.
template <class T>
void write_lines(const Results<T>& results, const Part& part, const PartSums<T>& sums, char* slice);

}  // namespace ortconv::kernels::gemm_col2im
