// The inputs and attributes of the Fourier operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/fourier/stft.h"
#include "ops/conv_params.h"
#include "ort/abi/abi.h"
#include "ort/abi/attributes.h"
#include "ort/fourier/op.h"

namespace ortconv {

// Data, window, gains and sines; data and window; or data and length.
struct FourierIndices {
  static constexpr size_t kData = 0, kWindow = 1, kLength = 1, kGains = 2, kSines = 3;

  static size_t count(FourierOp op);
  static bool is_optional(FourierOp op, size_t index);
};

// An input of a run; null where the node has none.
const OrtValue* input_of(const OrtApi* api, const OrtKernelContext* context, size_t index);

// The integer that an input holds, a scalar of int64; `otherwise` where it is absent. `name` is that of messages.
int64_t integer_of(const OrtApi* api, const OrtValue* input, const char* name, int64_t otherwise);

// The longest transform: its tables are gigabytes.
constexpr int64_t kLongestTransform = 1 << 27;

// Of short-time transforms any length is allowed up to the first of these, and then so many times what the window or
// the bins have: the memory of a run is in proportion to its tensors.
constexpr int64_t kAnyTransform = 1 << 16, kZeroPadding = 4;

// Of ForwardSTFT, InverseSTFT and OverlapAdd. Checked.
struct StftAttributes {
  int64_t n_fft = 0;  // 0 of OverlapAdd
  int64_t hop = 1, begin = 0, end = 0, output_padding = 0;
  kernels::SpectralParts parts = kernels::SpectralParts::kBoth;
};
StftAttributes stft_attributes(FourierOp op, const AttributeSource& source);

// The shapes of a run; none where the node lacks an input.
struct StftShapes {
  Shape data, window;
  std::optional<Shape> gains, sines;
};

// What a run is to do, and the shape of its result. Throws Error where shapes and attributes do not fit.
struct StftRun {
  kernels::StftProblem problem;
  Shape y;
};
StftRun stft_run(FourierOp op, const StftAttributes& attributes, const StftShapes& shapes);

struct TransformAttributes {
  int64_t axis = 0;
  bool is_inverse = false, is_onesided = false;
};
TransformAttributes transform_attributes(const AttributeSource& source);

// The transform of an axis: [outer, size, inner, x_parts] to [outer, count, inner, y_parts].
struct TransformRun {
  int64_t length, outer, size, inner, x_parts, count, y_parts;
  Shape y;
};

// `length` is 0 for the default. Throws Error where shapes and attributes do not fit.
TransformRun transform_run(const TransformAttributes& attributes, const Shape& x, int64_t length);

}  // namespace ortconv
