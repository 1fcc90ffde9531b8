#include "ep/standard_convs.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/error.h"
#include "base/problem.h"

namespace ortconv::ep {
namespace {

constexpr int64_t kMostNumber = (int64_t{1} << 31) - 1;

std::vector<int64_t> list(const StandardAttributes& source, const char* name, size_t count, int64_t otherwise,
                          int64_t least) {
  const auto found = source.integers(name);
  if (!found || found->empty()) return std::vector<int64_t>(count, otherwise);
  const bool fits =
      std::all_of(found->begin(), found->end(), [=](int64_t v) { return v >= least && v <= kMostNumber; });
  if (found->size() != count || !fits) {
    fail(name, " = ", to_string(*found), "; allowed: ", count, " integers from ", least, " to ", kMostNumber);
  }
  return *found;
}

// What SAME takes off each axis: all begins, then all ends.
std::vector<int64_t> same_pads(const ConvAttributes& a, const Shape& kernel, bool is_upper) {
  const size_t ndims = kernel.size();
  std::vector<int64_t> pads(2 * ndims);
  for (size_t i = 0; i < ndims; ++i) {
    if (kernel[i] < 1) fail("auto_pad is SAME and the size of its kernel is not known");
    const int64_t extent = (kernel[i] - 1) * a.dilations[i] + 1;
    const int64_t total = std::max<int64_t>(extent + a.output_padding[i] - a.strides[i], 0);
    pads[i] = is_upper ? total / 2 : total - total / 2;
    pads[i + ndims] = total - pads[i];
  }
  return pads;
}

constexpr const char *kNotSet = "NOTSET", *kValid = "VALID";

// What a Conv and a ConvTranspose have in common, and the rule of their padding.
std::string read_window(const StandardAttributes& source, const Shape& w, DataType dtype, ConvAttributes* a) {
  if (w.size() < 3 || w.size() > static_cast<size_t>(kMaxSpatial) + 2) {
    fail("its weights have ", w.size(), " axes; allowed: 3 to ", kMaxSpatial + 2);
  }
  const size_t ndims = w.size() - 2;
  const auto stated = source.integers("kernel_shape");
  for (size_t i = 0; stated && !stated->empty() && i < ndims; ++i) {
    if (stated->size() != ndims || (w[i + 2] >= 0 && (*stated)[i] != w[i + 2])) {
      fail("kernel_shape = ", to_string(*stated), " and its weights have shape ", to_string(w));
    }
  }
  a->strides = list(source, "strides", ndims, 1, 1);
  a->dilations = list(source, "dilations", ndims, 1, 1);
  a->group = source.integer("group").value_or(1);
  a->x_perm.resize(w.size());
  std::iota(a->x_perm.begin(), a->x_perm.end(), int64_t{0});
  a->w_perm = a->y_perm = a->x_perm;
  a->accumulation_type = static_cast<int64_t>(accumulation_type(dtype));
  a->pads = list(source, "pads", 2 * ndims, 0, 0);
  const std::string rule = source.text("auto_pad").value_or(kNotSet);
  if (rule != kNotSet && std::any_of(a->pads.begin(), a->pads.end(), [](int64_t v) { return v != 0; })) {
    fail("pads stand beside auto_pad = ", rule);
  }
  return rule;
}

}  // namespace

ConvTranspose read_conv_transpose(const StandardAttributes& source, const Shape& w, DataType dtype) {
  ConvTranspose found;
  ConvAttributes& a = found.attributes;
  const std::string rule = read_window(source, w, dtype, &a);
  const size_t ndims = w.size() - 2;
  const Shape kernel(w.begin() + 2, w.end());
  a.output_padding = list(source, "output_padding", ndims, 0, 0);
  if (rule != kNotSet && rule != kValid && rule != "SAME_UPPER" && rule != "SAME_LOWER") fail("auto_pad = ", rule);
  const bool is_upper = rule == "SAME_UPPER";
  if (const auto shape = source.integers("output_shape"); shape && !shape->empty()) {
    found.output_shape = list(source, "output_shape", ndims, 0, 1);
    a.op = ConvOp::kConvTransposeToShape;
    a.auto_pad = is_upper ? AutoPad::kSameUpper : AutoPad::kSameLower;
    a.pads.assign(ndims, 0);
  } else if (is_upper || rule == "SAME_LOWER") {
    a.pads = same_pads(a, kernel, is_upper);
  }
  check_attributes(a, dtype);
  return found;
}

ConvAttributes read_conv(const StandardAttributes& source, const Shape& w, DataType dtype) {
  ConvAttributes a;
  a.op = ConvOp::kConv;
  const std::string rule = read_window(source, w, dtype, &a);
  if (rule != kNotSet && rule != kValid) fail("auto_pad = ", rule);
  check_attributes(a, dtype);
  return a;
}

}  // namespace ortconv::ep
