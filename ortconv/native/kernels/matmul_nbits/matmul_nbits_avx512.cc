#include <immintrin.h>

#include "kernels/matmul_nbits/dots_avx512.h"
#include "kernels/matmul_nbits/stages.h"
#include "kernels/matmul_nbits/unpack_avx512.h"

namespace ortconv::kernels {

extern const MatMulNbitsKernel k_matmul_nbits_generic, k_matmul_nbits_avx512;

namespace {

int64_t most_dots(const QuantizedMatrix& matrix) {
  const bool has_block_per_chunk = matrix.block % kChunk == 0 || matrix.block == matrix.k;
  switch (way_of(matrix)) {
    case Way::kOther:
      return kDotRows;
    case Way::kNibbleBlocks:
      return 16;
    default:
      return has_block_per_chunk ? 64 : 24;
  }
}

void arrange(const QuantizedMatrix& matrix, int64_t m, const float* x, float* out) {
  switch (way_of(matrix)) {
    case Way::kBytes:
      return arrange_bytes(matrix.k, m, x, out);
    case Way::kNibbles:
    case Way::kNibbleBlocks:
      return arrange_nibbles(matrix.k, m, x, out);
    case Way::kOther:
      return k_matmul_nbits_generic.arrange(matrix, m, x, out);
  }
}

template <Code kCode, bool kHasZeros>
void nibble_blocks(const DotArgs& args) {
  switch (kChunk / args.matrix->block) {
    case 2:
      return all_rows<NibbleBlocksDot<kCode, 2, kHasZeros>>(args);
    case 4:
      return all_rows<NibbleBlocksDot<kCode, 4, kHasZeros>>(args);
    default:
      return all_rows<NibbleBlocksDot<kCode, 8, kHasZeros>>(args);
  }
}

void dots(const DotArgs& args) {
  const Way way = way_of(*args.matrix);
  if (way == Way::kOther) return k_matmul_nbits_generic.dots(args);
  with_code(args.matrix->code, [&](auto code) {
    if constexpr (bits_of(code()) == 8) {
      if (args.matrix->block == args.matrix->k) {
        all_rows<BytesDot<code(), true>>(args);
      } else {
        all_rows<BytesDot<code(), false>>(args);
      }
    } else if (way == Way::kNibbles) {
      all_rows<NibblesDot<code()>>(args);
    } else if (args.matrix->zeros == nullptr) {
      nibble_blocks<code(), false>(args);
    } else {
      nibble_blocks<code(), code() != Code::kTable>(args);
    }
  });
}

void unpack(const UnpackArgs& args) {
  if (!can_unpack(*args.matrix)) return k_matmul_nbits_generic.unpack(args);
  with_code(args.matrix->code, [&](auto code) {
    if (args.matrix->zeros == nullptr) {
      unpack_panel<code(), false>(args);
    } else {
      unpack_panel<code(), code() != Code::kTable>(args);
    }
  });
}

}  // namespace

const MatMulNbitsKernel k_matmul_nbits_avx512 = {"matmul_nbits_avx512", kDotRows, most_dots, arrange, dots, unpack};

}  // namespace ortconv::kernels
