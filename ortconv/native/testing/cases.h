// Convolutions to test with, and what they must give: loops written from the definition of the ops.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/conv/conv.h"
#include "ops/conv_params.h"
#include "testing/test.h"

namespace ortconv::test {

// Valid attributes with neutral values: unit strides, no padding, identity layouts, float.
inline ConvAttributes attributes(ConvOp op, int ndims) {
  ConvAttributes a;
  a.op = op;
  a.strides.assign(ndims, 1);
  a.dilations.assign(ndims, 1);
  for (int i = 0; i < ndims + 2; ++i) a.x_perm.push_back(i);
  a.w_perm = a.y_perm = a.x_perm;
  a.pads.assign(op == ConvOp::kConvTransposeToShape ? ndims : 2 * ndims, 0);
  if (op != ConvOp::kConv) a.output_padding.assign(ndims, 0);
  a.accumulation_type = static_cast<int64_t>(DataType::kFloat);
  return a;
}

// Numbers that round, unlike those of CaseMaker::values.
inline std::vector<float> normal_numbers(std::mt19937& random, int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  std::generate(numbers.begin(), numbers.end(), [&] { return normal(random); });
  return numbers;
}

// A node's attributes and the shapes of its inputs.
struct Case {
  ConvAttributes attributes;
  Shape x, w;
  std::optional<std::vector<int64_t>> output_shape;
  bool bias = true, residual = false;

  kernels::Op op() const { return attributes.transposed() ? kernels::Op::kConvTranspose : kernels::Op::kConv; }

  // Throws Error when the ops refuse the case.
  ConvProblem problem(DataType dtype) const {
    ConvAttributes a = attributes;
    a.accumulation_type = static_cast<int64_t>(accumulation_type(dtype));
    if (accumulation_type(dtype) != DataType::kFloat) a.activation = Activation();
    check_attributes(a, dtype);
    ConvProblem p = weight_problem(a, w);
    const Shape b = {p.oc};
    complete_problem(a, x, bias ? &b : nullptr, output_shape ? &*output_shape : nullptr, &p);
    return p;
  }

  std::string describe() const {
    const ConvAttributes& a = attributes;
    return test::describe("op ", static_cast<int>(a.op), " x ", to_string(x), " w ", to_string(w), " strides ",
                          to_string(a.strides), " dilations ", to_string(a.dilations), " pads ", to_string(a.pads),
                          " output_padding ", to_string(a.output_padding), " auto_pad ", static_cast<int>(a.auto_pad),
                          " group ", a.group, " perms ", to_string(a.x_perm), to_string(a.w_perm), to_string(a.y_perm),
                          " output_shape ", output_shape ? to_string(*output_shape) : "none", bias ? " bias" : "",
                          residual ? " residual" : "", a.activation.is_identity() ? "" : " activation");
  }
};

inline int64_t count_of(const Shape& shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

// Draws cases. Some are refused by the ops: a negative output size, a kernel larger than its input.
class CaseMaker {
 public:
  explicit CaseMaker(uint64_t seed) : random_(seed) {}

  int64_t draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  std::mt19937_64& random() { return random_; }

  Case make(int ndims) {
    const auto op = static_cast<ConvOp>(draw(0, 2));
    Case c;
    ConvAttributes& a = c.attributes = attributes(op, ndims);
    a.group = draw(0, 2) == 0 ? draw(2, 3) : 1;
    for (auto* perm : {&a.x_perm, &a.w_perm, &a.y_perm}) {
      if (draw(0, 1) == 0) std::shuffle(perm->begin(), perm->end(), random_);
    }
    Shape x = {draw(0, 9) == 0 ? 0 : draw(1, 2), a.group * (draw(0, 15) == 0 ? 0 : draw(1, 4))};
    const int64_t out = draw(0, 2) == 0 ? draw(12, 20) : draw(1, 5);  // per group: blocks of 16, 4 and 1
    Shape w = a.transposed() ? Shape{x[1], out} : Shape{a.group * out, x[1] / a.group};
    const int64_t largest = ndims == 1 ? 300 : ndims == 2 ? 8 : ndims == 3 ? 5 : 2;
    if (op == ConvOp::kConvTransposeToShape) c.output_shape.emplace();
    for (int i = 0; i < ndims; ++i) {
      x.push_back(draw(0, 15) == 0 ? 0 : draw(1, largest));
      w.push_back(draw(1, 3));
      a.strides[i] = draw(1, 3);
      a.dilations[i] = draw(1, 3);
      if (a.transposed()) a.output_padding[i] = draw(0, 3) == 0 ? draw(1, 9) : 0;
      if (c.output_shape) c.output_shape->push_back(draw(0, 2 * largest + 2));
    }
    for (int64_t& pad : a.pads) pad = draw(0, 3);
    if (op != ConvOp::kConvTranspose && draw(0, 1) == 0) {
      a.auto_pad = draw(0, 1) == 0 ? AutoPad::kSameUpper : AutoPad::kSameLower;
      std::fill(a.pads.begin(), a.pads.end(), 0);
    }
    c.bias = draw(0, 1) == 0;
    c.residual = ++made_ % 5 == 0;
    if (draw(0, 2) == 0) a.activation = {0.25f, -6.0f, 12.0f};
    c.x = c.w = Shape(ndims + 2);
    for (int i = 0; i < ndims + 2; ++i) {
      c.x[a.x_perm[i]] = x[i];
      c.w[a.w_perm[i]] = w[i];
    }
    return c;
  }

  // Floats are small integers, so that every sum is exact in float; integers use all their bits, so that sums wrap.
  template <class T>
  std::vector<T> values(int64_t count) {
    std::vector<T> result(count);
    for (T& value : result) {
      if constexpr (std::is_integral_v<T>) {
        value = static_cast<T>(random_());
      } else {
        const auto integer = static_cast<float>(draw(-9, 9));
        if constexpr (std::is_same_v<T, Float16>) {
          value = to_float16(integer);
        } else if constexpr (std::is_same_v<T, Bfloat16>) {
          value = to_bfloat16(integer);
        } else {
          value = integer;
        }
      }
    }
    return result;
  }

 private:
  std::mt19937_64 random_;
  int made_ = 0;
};

// The type the oracle sums in: doubles hold the test's float sums exactly, 64 bits hold the low bits of any integer.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;

template <class T>
Wide<T> widen(T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    return to_float(value);
  } else {
    return static_cast<Wide<T>>(value);
  }
}

template <class T>
T narrow(Wide<T> sum) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(static_cast<float>(sum));
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return to_bfloat16(static_cast<float>(sum));
  } else {
    return static_cast<T>(sum);
  }
}

// Steps `index` through all positions below `sizes`, last axis fastest; false after the last one.
inline bool next(std::vector<int64_t>* index, const int64_t* sizes) {
  for (size_t i = index->size(); i-- > 0;) {
    if (++(*index)[i] < sizes[i]) return true;
    (*index)[i] = 0;
  }
  return false;
}

inline int64_t offset(const std::vector<int64_t>& index, const int64_t* strides) {
  int64_t sum = 0;
  for (size_t i = 0; i < index.size(); ++i) sum += index[i] * strides[i];
  return sum;
}

// The source position that output y and kernel position k meet at on one axis; -1 when there is none.
inline int64_t source_position(const ConvProblem& p, kernels::Op op, int axis, int64_t y, int64_t k) {
  int64_t x = -1;
  if (op == kernels::Op::kConv) {
    x = y * p.stride[axis] - p.pad[axis] + k * p.dilation[axis];
  } else {
    const int64_t shifted = y + p.pad[axis] - k * p.dilation[axis];  // x * s
    if (shifted >= 0 && shifted % p.stride[axis] == 0) x = shifted / p.stride[axis];
  }
  return x < p.src_size[axis] ? x : -1;
}

// Where a kernel position meets a source position: offsets into src and weights, for channel 0.
struct Tap {
  int64_t src, wei;
};

// Finds every tap of one output position after the other, once for all channels.
class TapFinder {
 public:
  TapFinder(const ConvProblem& p, kernels::Op op) : p_(p), op_(op), y_(p.ndims, -1), taps_(p.ndims + 1) {
    taps_[0] = {{0, 0}};
  }

  const std::vector<Tap>& taps_of(const std::vector<int64_t>& y) {
    int axis = 0;  // the first that differs from those of the position before
    while (axis < p_.ndims && y[axis] == y_[axis]) ++axis;
    for (; axis < p_.ndims; ++axis) {
      y_[axis] = y[axis];
      on_axis_.clear();
      for (int64_t k = 0; k < p_.ker[axis]; ++k) {
        const int64_t x = source_position(p_, op_, axis, y[axis], k);
        if (x >= 0) on_axis_.push_back({x * p_.src_x[axis], k * p_.wei_x[axis]});
      }
      taps_[axis + 1].clear();
      for (const Tap& before : taps_[axis]) {
        for (const Tap& here : on_axis_) taps_[axis + 1].push_back({before.src + here.src, before.wei + here.wei});
      }
    }
    return taps_.back();
  }

 private:
  const ConvProblem& p_;
  const kernels::Op op_;
  std::vector<int64_t> y_;              // the position before
  std::vector<std::vector<Tap>> taps_;  // of so many axes, the first ones
  std::vector<Tap> on_axis_;
};

// Elements of dst. Sizes beside one that is zero may multiply to more than int64 holds.
inline int64_t count_of_dst(const ConvProblem& p) {
  const Shape sizes(p.dst_size, p.dst_size + p.ndims);
  if (p.mb * p.oc == 0 || std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  return p.mb * p.oc * count_of(sizes);
}

// Y in memory order.
template <class T>
std::vector<T> oracle(const ConvProblem& p, kernels::Op op, const T* src, const T* wei, const T* bias,
                      const T* residual = nullptr) {
  const int64_t icg = p.ic / p.g, ocg = p.oc / p.g;
  std::vector<T> dst(count_of_dst(p));
  if (dst.empty()) return dst;
  std::vector<int64_t> y(p.ndims);
  TapFinder finder(p, op);
  do {
    const std::vector<Tap>& taps = finder.taps_of(y);
    for (int64_t n = 0; n < p.mb; ++n) {
      for (int64_t oc = 0; oc < p.oc; ++oc) {
        const int64_t group = oc / ocg;
        Wide<T> sum = bias != nullptr ? widen(bias[oc]) : Wide<T>();
        for (const auto& [from, with] : taps) {
          for (int64_t c = 0; c < icg; ++c) {
            const int64_t ic = group * icg + c;
            const int64_t w =
                op == kernels::Op::kConv ? oc * p.wei_0 + c * p.wei_1 : ic * p.wei_0 + (oc % ocg) * p.wei_1;
            sum += widen(src[n * p.src_n + ic * p.src_c + from]) * widen(wei[w + with]);
          }
        }
        const int64_t at = n * p.dst_n + oc * p.dst_c + offset(y, p.dst_x);
        T& out = dst[at];
        out = narrow<T>(sum);
        if (residual != nullptr) out = narrow<T>(widen(out) + widen(residual[at]));
        if (!p.activation.is_identity())
          out = narrow<T>(static_cast<Wide<T>>(p.activation(static_cast<float>(widen(out)))));
      }
    }
  } while (next(&y, p.dst_size));
  return dst;
}

}  // namespace ortconv::test
