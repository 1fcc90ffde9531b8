#include "ops/conv_params.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"

namespace ortconv {
namespace {

constexpr const char* kLimit = "2^61 - 1";
constexpr const char* kNegativeLimit = "-(2^61 - 1)";

void check_ints(const char* name, const std::vector<int64_t>& values, size_t count, int64_t least) {
  const bool in_range =
      std::all_of(values.begin(), values.end(), [least](int64_t v) { return v >= least && v <= kMaxExtent; });
  if (values.size() == count && in_range) return;
  fail("attribute ", name, "=", to_string(values), " is not valid; allowed: ", count, " ints from ",
       least < 0 ? kNegativeLimit : std::to_string(least), " to ", kLimit, ".");
}

void check_permutation(const char* name, const std::vector<int64_t>& values, size_t rank) {
  std::vector<int64_t> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  bool valid = sorted.size() == rank;
  for (size_t i = 0; valid && i < rank; ++i) valid = sorted[i] == static_cast<int64_t>(i);
  if (!valid) {
    fail("attribute ", name, "=", to_string(values), " is not valid; allowed: a permutation of 0 to ", rank - 1, ".");
  }
}

// a * b + c of non-negative numbers; refuses a result above kMaxExtent.
int64_t multiply_add(int64_t a, int64_t b, int64_t c, const char* what, int axis) {
  if (c > kMaxExtent || (a != 0 && b > (kMaxExtent - c) / a)) {
    fail("spatial axis ", axis, ": ", what, " = ", a, " * ", b, " + ", c, " is too large; allowed: up to ", kLimit,
         ".");
  }
  return a * b + c;
}

// The kernel's extent with its dilation.
int64_t kernel_extent(const ConvAttributes& a, int axis, int64_t k) {
  return multiply_add(k - 1, a.dilations[axis], 1, "kernel extent (kernel - 1) * dilation + 1", axis);
}

// Size of the transposed convolution's result before any padding is taken off.
int64_t full_extent(const ConvAttributes& a, int axis, int64_t x, int64_t extent) {
  const int64_t s = a.strides[axis];
  if (x == 0) return std::max<int64_t>(extent - s, 0);
  return multiply_add(x - 1, s, extent, "full size (size - 1) * stride + kernel extent", axis);
}

// Splits a total padding; `lower` puts the odd element at the begin.
int64_t begin_of(int64_t total, AutoPad auto_pad) {
  return auto_pad == AutoPad::kSameLower ? total - total / 2 : total / 2;
}

// One spatial axis of the result.
struct AxisResult {
  int64_t size;
  int64_t pad;  // at the begin
};

AxisResult resolve_conv(const ConvAttributes& a, int axis, int64_t x, int64_t extent) {
  const int64_t s = a.strides[axis];
  if (a.auto_pad != AutoPad::kNotset) {
    const int64_t size = x / s + (x % s != 0);
    if (size == 0) return {0, 0};
    const int64_t reach = multiply_add(size - 1, s, extent, "reach (output size - 1) * stride + kernel extent", axis);
    return {size, begin_of(std::max<int64_t>(reach - x, 0), a.auto_pad)};
  }
  const int64_t begin = a.pads[axis], end = a.pads[axis + a.ndims()];
  const int64_t padded = x + begin + end;
  if (extent > padded) {
    fail("spatial axis ", axis, ": kernel extent ", extent, " exceeds the padded input of ", x, " + ", begin, " + ",
         end, " elements; allowed: up to ", padded, ".");
  }
  return {(padded - extent) / s + 1, begin};
}

AxisResult resolve_transpose(const ConvAttributes& a, int axis, int64_t full) {
  const int64_t begin = a.pads[axis], end = a.pads[axis + a.ndims()], more = a.output_padding[axis];
  const int64_t size = full + more - begin - end;
  if (size < 0) {
    fail("spatial axis ", axis, ": output size ", size, " = full size ", full, " - pads ", begin, " - ", end,
         " + output_padding ", more, " is negative; allowed: 0 or more.");
  }
  return {size, begin};
}

AxisResult resolve_to_shape(const ConvAttributes& a, int axis, int64_t full, int64_t size) {
  if (size < 0 || size > kMaxExtent) {
    fail("input output_shape[", axis, "]=", size, " is not valid; allowed: 0 to ", kLimit, ".");
  }
  if (a.auto_pad == AutoPad::kNotset) return {size, a.pads[axis]};
  return {size, begin_of(std::max<int64_t>(full + a.output_padding[axis] - size, 0), a.auto_pad)};
}

// The size and begin padding of spatial axis `axis` for a source of size x and a kernel of size k.
AxisResult resolve_axis(const ConvAttributes& a, int axis, int64_t x, int64_t k, int64_t output_shape) {
  const int64_t extent = kernel_extent(a, axis, k);
  switch (a.op) {
    case ConvOp::kConv:
      return resolve_conv(a, axis, x, extent);
    case ConvOp::kConvTransposeToShape:
      return resolve_to_shape(a, axis, full_extent(a, axis, x, extent), output_shape);
    case ConvOp::kConvTranspose:
    case ConvOp::kConvTransposeAdd:
      break;
  }
  return resolve_transpose(a, axis, full_extent(a, axis, x, extent));
}

std::vector<int64_t> permuted(const Shape& shape, const std::vector<int64_t>& perm) {
  std::vector<int64_t> result(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) result[i] = shape[perm[i]];
  return result;
}

bool is_empty(const Shape& shape) { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }

// Refuses tensors whose elements cannot be counted in bytes.
void check_countable(const char* kind, const char* name, const Shape& shape) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 8;
  if (is_empty(shape)) return;
  int64_t count = 1;
  for (int64_t size : shape) {
    if (count > kMost / size) {
      fail(kind, " ", name, " has shape ", to_string(shape), "; allowed: less than 2^60 elements in all.");
    }
    count *= size;
  }
}

// Strides, in elements, of a dense tensor; all zero when it is empty, as nothing will be read then and the products
// might not fit.
std::vector<int64_t> dense_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 0);
  if (is_empty(shape)) return strides;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

void check_shape(const char* input, const Shape& shape, int ndims) {
  const bool fits = static_cast<int>(shape.size()) == ndims + 2 &&
                    std::all_of(shape.begin(), shape.end(), [](int64_t v) { return v >= 0 && v <= kMaxExtent; });
  if (!fits) {
    fail("input ", input, " has shape ", to_string(shape), "; allowed: rank ", ndims + 2,
         " (the length of strides + 2) with sizes from 0 to ", kLimit, ".");
  }
  check_countable("input", input, shape);
}

}  // namespace

AutoPad parse_auto_pad(int64_t value) {
  if (value >= 0 && value <= static_cast<int64_t>(AutoPad::kSameLower)) return static_cast<AutoPad>(value);
  fail("attribute auto_pad=", value, " is not valid; allowed: 0 (NOTSET), 1 (SAME_UPPER), 2 (SAME_LOWER).");
}

Activation parse_activation(const std::vector<float>& values) {
  if (values.size() == 3 && std::isfinite(values[0]) && values[1] <= values[2]) {
    return {values[0], values[1], values[2]};
  }
  fail("attribute activation is not valid; allowed: a finite slope, a minimum and a maximum that is no less.");
}

HardSigmoid parse_hard_sigmoid(const std::vector<float>& values) {
  if (values.empty()) return {};
  if (values.size() == 2 && std::isfinite(values[0]) && std::isfinite(values[1])) return {values[0], values[1]};
  fail("attribute hard_sigmoid is not valid; allowed: a finite alpha and a finite beta.");
}

void check_attributes(const ConvAttributes& a, DataType dtype) {
  const size_t ndims = a.strides.size();
  if (ndims < 1 || ndims > static_cast<size_t>(kMaxSpatial)) {
    fail("attribute strides=", to_string(a.strides), " is not valid; allowed: 1 to ", kMaxSpatial,
         " ints, one for each spatial axis.");
  }
  check_ints("strides", a.strides, ndims, 1);
  check_ints("dilations", a.dilations, ndims, 1);
  check_permutation("x_perm", a.x_perm, ndims + 2);
  check_permutation("w_perm", a.w_perm, ndims + 2);
  check_permutation("y_perm", a.y_perm, ndims + 2);
  check_ints(a.pads_name(), a.pads, a.op == ConvOp::kConvTransposeToShape ? ndims : 2 * ndims, 0);
  if (a.transposed()) {
    const int64_t least = a.op == ConvOp::kConvTransposeToShape ? 0 : -kMaxExtent;  // it may take off the end
    check_ints("output_padding", a.output_padding, ndims, least);
  }
  if (a.group < 1 || a.group > kMaxExtent) {
    fail("attribute group=", a.group, " is not valid; allowed: 1 to ", kLimit, ".");
  }
  if (a.auto_pad != AutoPad::kNotset && std::any_of(a.pads.begin(), a.pads.end(), [](int64_t v) { return v != 0; })) {
    fail("attribute ", a.pads_name(), "=", to_string(a.pads),
         " is not valid with auto_pad SAME_UPPER or SAME_LOWER; allowed: zeros.");
  }
  const auto accumulation = static_cast<int64_t>(accumulation_type(dtype));
  if (a.accumulation_type != accumulation) {
    fail("attribute accumulation_type=", a.accumulation_type, " is not valid for element type ",
         static_cast<int>(dtype), "; allowed: ", accumulation, " (numbers of TensorProto.DataType).");
  }
  if (!a.activation.is_identity() && accumulation_type(dtype) != DataType::kFloat) {
    fail("attribute activation is not valid for element type ", static_cast<int>(dtype),
         "; allowed there: [1, -inf, inf].");
  }
}

ConvProblem weight_problem(const ConvAttributes& a, const Shape& w) {
  const int ndims = a.ndims();
  check_shape("W", w, ndims);
  const Shape logical = permuted(w, a.w_perm);
  const std::vector<int64_t> strides = permuted(dense_strides(w), a.w_perm);

  ConvProblem p;
  p.ndims = ndims;
  p.g = a.group;
  p.activation = a.activation;
  if (logical[0] % a.group != 0) {
    fail("input W has shape ", to_string(w), ", that is ", logical[0], a.transposed() ? " input" : " output",
         " channels on axis ", a.w_perm[0], "; allowed: a multiple of group=", a.group, ".");
  }
  if (logical[1] > kMaxExtent / a.group) {
    fail("input W has shape ", to_string(w), ", that is ", logical[1], " channels in each of group=", a.group,
         " groups; allowed: up to ", kLimit, " together.");
  }
  p.ic = a.transposed() ? logical[0] : logical[1] * a.group;
  p.oc = a.transposed() ? logical[1] * a.group : logical[0];
  p.wei_0 = strides[0];
  p.wei_1 = strides[1];
  for (int i = 0; i < ndims; ++i) {
    if (logical[i + 2] < 1) {
      fail("input W has shape ", to_string(w), ", a kernel of size 0 on axis ", a.w_perm[i + 2],
           "; allowed: 1 or more.");
    }
    p.ker[i] = logical[i + 2];
    p.stride[i] = a.strides[i];
    p.dilation[i] = p.ker[i] == 1 ? 1 : a.dilations[i];  // a single tap has no distance to the next
    p.wei_x[i] = strides[i + 2];
    kernel_extent(a, i, p.ker[i]);
  }
  return p;
}

void complete_problem(const ConvAttributes& a, const Shape& x, const Shape* bias,
                      const std::vector<int64_t>* output_shape, ConvProblem* p) {
  check_shape("X", x, p->ndims);
  const Shape logical = permuted(x, a.x_perm);
  if (logical[1] != p->ic) {
    fail("input X has shape ", to_string(x), ", that is ", logical[1], " channels on axis ", a.x_perm[1],
         "; allowed: ", p->ic, ", from W and group=", a.group, ".");
  }
  if (bias != nullptr && *bias != Shape{p->oc}) {
    fail("input B has shape ", to_string(*bias), "; allowed: [", p->oc, "], from W and group=", a.group, ".");
  }
  if (output_shape != nullptr && static_cast<int>(output_shape->size()) != p->ndims) {
    fail("input output_shape has ", output_shape->size(), " entries; allowed: ", p->ndims,
         ", one for each spatial axis.");
  }

  p->mb = logical[0];
  const std::vector<int64_t> src_strides = permuted(dense_strides(x), a.x_perm);
  p->src_n = src_strides[0];
  p->src_c = src_strides[1];
  for (int i = 0; i < p->ndims; ++i) {
    p->src_size[i] = logical[i + 2];
    p->src_x[i] = src_strides[i + 2];
    const int64_t requested = output_shape != nullptr ? (*output_shape)[i] : 0;
    const AxisResult axis = resolve_axis(a, i, p->src_size[i], p->ker[i], requested);
    p->dst_size[i] = axis.size;
    p->pad[i] = axis.pad;
  }

  // Y[j] is Yn[y_perm[j]], so the stride of Yn's axis y_perm[j] is that of Y's axis j.
  const Shape y = output_dims(a, *p);
  check_countable("output", "Y", y);
  const std::vector<int64_t> strides = dense_strides(y);
  for (int j = 0; j < p->ndims + 2; ++j) {
    const int64_t axis = a.y_perm[j];
    (axis == 0 ? p->dst_n : axis == 1 ? p->dst_c : p->dst_x[axis - 2]) = strides[j];
  }
}

void check_residual(const ConvAttributes& a, const ConvProblem& p, const Shape& residual) {
  const Shape y = output_dims(a, p);
  if (residual != y) fail("input R has shape ", to_string(residual), "; allowed: ", to_string(y), ", as Y has.");
}

Shape output_dims(const ConvAttributes& a, const ConvProblem& p) {
  Shape logical = {p.mb, p.oc};
  logical.insert(logical.end(), p.dst_size, p.dst_size + p.ndims);
  return permuted(logical, a.y_perm);
}

}  // namespace ortconv
