// Sums of products in pieces: after each piece a sum is put aside and a new one begins, so that the error stays small.
//
// Every addition rounds, by an error in proportion to the sum so far. For n products of random sign the expected square
// of the error of their sum is therefore in proportion to
//     n * n              when they are added one after the other, and to
//     n * (m + n / m)    when pieces of m are, and then the sums of the pieces.
// What follows leaves out the factor n.
//
// The reference is ONNX Runtime's transposed convolution by matrix products: it sums the channels of one tap in blocks
// of 128, one block after the other, then tap after tap. Nothing here may have a larger error, or spend time on a
// smaller one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/math.h"
#include "base/problem.h"

namespace ortconv::kernels {

inline double sum_error(int64_t products, int64_t piece) {
  return static_cast<double>(piece) + static_cast<double>(products) / static_cast<double>(piece);
}

// The error of the reference.
inline double usual_sum_error(int64_t channels, int64_t taps) {
  constexpr int64_t kBlock = 128;
  return sum_error(channels * taps, std::clamp<int64_t>(channels, 1, kBlock));
}

// The longest pieces of at most 128 products, or of all of them, whose error is at most `most`; zero where there are
// none. Their error is just `most` at the larger root of a quadratic equation.
inline int64_t longest_piece(int64_t products, double most) {
  if (sum_error(products, products) <= most) return products;
  constexpr double kLeast = 4, kMost = 128;
  const auto n = static_cast<double>(products);
  if (most < 2 * std::sqrt(n)) return 0;
  const double piece = std::min(kMost, (most + std::sqrt(most * most - 4 * n)) / 2);
  return piece < kLeast || sum_error(products, static_cast<int64_t>(piece)) > most ? 0 : static_cast<int64_t>(piece);
}

// The same number of pieces, of about equal length.
inline int64_t even_piece(int64_t products, int64_t piece) { return ceil_div(products, ceil_div(products, piece)); }

// Pieces with about the least error.
inline int64_t best_piece(int64_t products) {
  int64_t piece = 4;
  while (piece < 128 && 2 * piece * piece <= products) piece *= 2;
  return piece;
}

// Pieces, and products per call of the GEMM or of a tile, whose sums are added as well: three levels of short chains
// instead of two.
struct Pieces {
  int64_t piece, call;
};

// For sums so short that more calls cost less than they gain.
inline Pieces best_pieces(int64_t products) {
  constexpr int64_t kPerCall = 3;  // pieces, at least
  int64_t piece = 4;
  while (piece < 128 && piece * piece < products) piece += 4;
  const int64_t call = std::max(ceil_div(products, std::max<int64_t>(1, products / (kPerCall * piece))), piece);
  return {ceil_div(call, ceil_div(call, piece)), call};
}

// Pieces of an ordinary sum, or zero where there are none. Stays a tenth below the reference, which is an expectation;
// a single chain can only equal it.
inline int64_t longest_piece_of_sum(int64_t channels, int64_t taps) {
  const int64_t products = std::max<int64_t>(channels * taps, 1);
  const double usual = usual_sum_error(channels, taps);
  return sum_error(products, products) <= usual ? products : longest_piece(products, 0.9 * usual);
}
inline int64_t piece_length(int64_t channels, int64_t taps) {
  const int64_t piece = longest_piece_of_sum(channels, taps);
  return piece > 0 ? piece : best_piece(std::max<int64_t>(channels * taps, 1));
}

// A closer reference, which matters with many channels. A transposed convolution completes the sum over the channels of
// a tap before adding it. A convolution (one_sum) sums all products in blocks of 128, or those of 16 channels at a
// time.
inline double usual_long_sum_error(bool one_sum, int64_t channels, int64_t taps) {
  constexpr int64_t kBlock = 128, kChannels = 16;
  if (!one_sum) {
    return sum_error(channels, std::clamp<int64_t>(channels, 1, kBlock)) + static_cast<double>(taps);
  }
  const int64_t products = std::max<int64_t>(channels * taps, 1);
  return std::min(sum_error(products, std::min(products, kBlock)),
                  sum_error(products, std::max<int64_t>(1, std::min(channels, kChannels) * taps)));
}

// Pieces of the sum of a transposed convolution. A call is what is summed before it is added to those before: all
// products, as long as two levels can have the error of the reference. With more channels than that has in a block, and
// many taps, they cannot.
inline Pieces pieces_of_sum(int64_t channels, int64_t taps) {
  const int64_t products = std::max<int64_t>(channels * taps, 1);
  const double usual = usual_long_sum_error(false, channels, taps);
  if (sum_error(products, products) <= usual) return {products, products};
  if (const int64_t piece = longest_piece(products, 0.9 * usual); piece > 0) return {piece, products};
  const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(products)));  // has the least error
  if (sum_error(products, root) <= usual) return {root, products};
  constexpr int64_t kMost = 128, kLeast = 8;
  int64_t piece = kMost, together;
  while (true) {
    const int64_t pieces = ceil_div(products, piece);
    together = static_cast<int64_t>(std::sqrt(static_cast<double>(pieces)));
    if (piece == kLeast || static_cast<double>(piece) + sum_error(pieces, together) <= 0.9 * usual) break;
    piece /= 2;
  }
  return {piece, piece * together};
}

// Pieces where calls of the GEMM take `call` products each and are added one after the other: the longest with an error
// a tenth below `usual`, else those with the least error.
struct LongSum {
  int64_t piece;
  bool exact_enough;
};
inline LongSum long_sum(int64_t products, int64_t call, double usual) {
  call = std::min(call, products);
  const double chain = static_cast<double>(products) / static_cast<double>(call);
  if (const int64_t piece = longest_piece(call, 0.9 * usual - chain); piece > 0) return {piece, true};
  const int64_t piece = best_piece(call);
  return {piece, sum_error(call, piece) + chain <= usual};
}

// The same of the channels of a transposed convolution in calls of `call`. So few are a single chain, as in ONNX
// Runtime.
inline int64_t piece_of_channels(int64_t channels, int64_t call) {
  constexpr int64_t kChain = 128;
  if (channels <= kChain) return kChain;
  return even_piece(call, long_sum(channels, call, usual_long_sum_error(false, channels, 0)).piece);
}

// For an image of a single position ONNX Runtime multiplies a matrix and a vector: eight sums side by side, which are
// then added. Few pieces in each of two calls have such an error; in a single call best_piece() comes near it.
inline bool has_short_sums(const ConvProblem& p) { return product_of(p.src_size, p.ndims) == 1; }
inline Pieces pieces_of_short_sum(int64_t channels) {
  const int64_t call = ceil_div(channels, int64_t{2});
  return {best_piece(call), call};
}

// The length of a piece, in steps, where floats are multiplied in parts (see kernels/bf16_split): a step sums 32
// products for each of six pairs of parts, and adds the six sums.
inline int64_t parts_piece_length(int64_t channels, int64_t taps) {
  constexpr double kWithin = 18, kPerStep = 6;
  const double usual = std::min(usual_sum_error(channels, taps), usual_long_sum_error(false, channels, taps));
  return std::max<int64_t>(1, static_cast<int64_t>((0.8 * usual - kWithin) / kPerStep));
}

}  // namespace ortconv::kernels
