#include "kernels/matmul_nbits/rows_by_matrix.h"

namespace ortconv::kernels {

RowsByMatrix rows_by_matrix(const int64_t* index, int64_t count, int64_t sharing, int64_t matrices, int64_t n) {
  RowsByMatrix named;
  std::vector<int64_t> next(matrices, 0);  // how many rows name each; then where its next one goes
  for (int64_t i = 0; i < count; ++i) {
    if (index[i] < 0 || index[i] >= matrices) {
      named.without_matrix.push_back(i);
    } else {
      ++next[index[i]];
    }
  }
  RowGroups& rows = named.rows;
  rows.width = n, rows.sharing = sharing;
  int64_t begin = 0;
  for (int64_t matrix = 0; matrix < matrices; ++matrix) {
    const int64_t end = begin + next[matrix];
    if (end > begin) rows.groups.push_back({matrix * n, begin, end});
    next[matrix] = begin, begin = end;
  }
  rows.order.resize(begin);
  for (int64_t i = 0; i < count; ++i) {
    if (index[i] >= 0 && index[i] < matrices) rows.order[next[index[i]]++] = i;
  }
  return named;
}

}  // namespace ortconv::kernels
