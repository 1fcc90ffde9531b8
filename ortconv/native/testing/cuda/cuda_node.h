// A node of ours in the CUDA provider: with fakes of ONNX Runtime, the driver and NVRTC, and the definition to compare
// its results with; exact, see CaseMaker::values.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "testing/cases.h"
#include "testing/fake_cuda/fake_cuda.h"
#include "testing/fake_ort/fake_ort.h"
#include "testing/test.h"

namespace ortconv::test {

constexpr FakeGpu kA100 = {80, 3, 163 << 10, 13020};
inline void* const kStream = reinterpret_cast<void*>(0x5000);

// The text of a status, which is deleted; empty for success.
std::string text_of(OrtStatus* status);

// How often a part is in a text.
int count(const std::string& text, const std::string& part);

// How often a function of the fakes was called since their log was cleared.
int calls(const std::string& function);

// In a log of the driver's functions there is nothing but launches on kStream: no copy, no synchronization.
void expect_only_launches(const std::string& log);

// The ops as sessions with these options get them.
std::vector<const OrtCustomOp*> registered(OrtSessionOptions* options);

// One of them; null if there is none.
const OrtCustomOp* cuda_op(ConvOp op, DataType dtype, bool tf32 = false);

// A small problem with weights that a kernel may want to pack.
Case small_case();

// A tensor on the GPU.
class GpuTensor {
 public:
  template <class T>
  GpuTensor(DataType dtype, const Shape& dims, const std::vector<T>& data, int device) {
    const size_t bytes = data.size() * sizeof(T);
    value_ = {static_cast<int>(dtype), dims, gpu_memory(device), fake_allocate(bytes)};
    fake_copy(value_.data, data.data(), bytes);
  }
  ~GpuTensor() { fake_free(value_.data); }
  GpuTensor(const GpuTensor&) = delete;
  GpuTensor& operator=(const GpuTensor&) = delete;
  const OrtValue* value() const { return &value_; }

 private:
  OrtValue value_;
};

struct Options {
  bool constant_weights = true;
  bool known_shapes = false;
  bool tf32 = false;
  int device = 0;
  void* stream = kStream;
};

// A node with its inputs.
template <class T>
class Node {
 public:
  Node(CaseMaker& maker, const Case& c, const ConvProblem& p, DataType dtype, const Options& options)
      : case_(c),
        problem_(p),
        options_(options),
        op_(cuda_op(c.attributes.op, dtype, options.tf32)),
        src_(maker.values<T>(count_of(c.x))),
        wei_(maker.values<T>(count_of(c.w))),
        bias_(maker.values<T>(c.bias ? p.oc : 0)),
        residual_(maker.values<T>(adds() ? count_of(y_shape()) : 0)),
        x_(dtype, c.x, src_, options.device),
        w_(dtype, c.w, wei_, options.device),
        b_(dtype, {p.oc}, bias_, options.device),
        r_(dtype, y_shape(), residual_, options.device) {
    if (c.output_shape) {
      output_shape_ = {static_cast<int>(DataType::kInt64),
                       {static_cast<int64_t>(c.output_shape->size())},
                       host_memory(),
                       case_.output_shape->data()};
    }
    info_.attributes = c.attributes;
    info_.attributes.accumulation_type = static_cast<int64_t>(DataType::kFloat);
    info_.memory = gpu_memory(options.device);
    const int type = static_cast<int>(dtype);
    const Shape open_x(c.x.size(), -1), open_w(c.w.size(), -1);
    info_.inputs.push_back({OrtTensorTypeAndShapeInfo{type, options.known_shapes ? c.x : open_x}, nullptr});
    info_.inputs.push_back({OrtTensorTypeAndShapeInfo{type, options.known_shapes ? c.w : open_w},
                            options.constant_weights ? w_.value() : nullptr});
    if (c.output_shape) {
      info_.inputs.push_back({OrtTensorTypeAndShapeInfo{static_cast<int>(DataType::kInt64), output_shape_.dims},
                              options.known_shapes ? &output_shape_ : nullptr});
    }
    if (adds()) {
      const Shape y = y_shape(), open_y(y.size(), -1);
      info_.inputs.push_back({OrtTensorTypeAndShapeInfo{type, options.known_shapes ? y : open_y}, nullptr});
    }
    if (c.bias) info_.inputs.push_back({OrtTensorTypeAndShapeInfo{type, {p.oc}}, nullptr});
  }

  ~Node() {
    if (owned_ && kernel_ != nullptr) op_->KernelDestroy(kernel_);
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Returns what is wrong.
  std::string create() { return text_of(op_->CreateKernelV2(op_, fake_ort(), &info_, &kernel_)); }

  // Uses the kernel of another node of the same attributes.
  void borrow(const Node& other) {
    kernel_ = other.kernel_;
    owned_ = false;
  }

  // Runs, also on another stream; returns what is wrong, after which y() holds the result once the stream is drained.
  std::string enqueue(OrtKernelContext* context) {
    if (kernel_ == nullptr) return "there is no kernel";
    context->memory = gpu_memory(options_.device);
    context->inputs = {x_.value(), w_.value()};
    if (case_.output_shape) context->inputs.push_back(&output_shape_);
    if (adds()) context->inputs.push_back(r_.value());
    context->inputs.push_back(case_.bias ? b_.value() : nullptr);
    return text_of(op_->KernelComputeV2(kernel_, context));
  }

  std::vector<T> result(const OrtKernelContext& context) const {
    if (context.y == nullptr) return {};
    std::vector<T> y(context.y_bytes / sizeof(T));
    fake_copy(y.data(), context.y->data, context.y_bytes);
    fake_free(context.y->data);
    return y;
  }

  // Runs and compares; returns what is wrong.
  std::string check() {
    OrtKernelContext context;
    context.stream = options_.stream;
    const std::string problem = enqueue(&context);
    if (!problem.empty()) return problem;
    fake_drain(options_.stream);
    const std::vector<T> y = result(context);
    const std::vector<T> expected = oracle(problem_, case_.op(), src_.data(), wei_.data(),
                                           case_.bias ? bias_.data() : nullptr, adds() ? residual_.data() : nullptr);
    if (y.size() != expected.size()) return describe(y.size(), " elements, not ", expected.size());
    for (size_t i = 0; i < y.size(); ++i) {
      if (std::memcmp(&y[i], &expected[i], sizeof(T)) != 0) {
        return describe("element ", i, " is ", widen(y[i]), " not ", widen(expected[i]));
      }
    }
    return "";
  }

 private:
  bool adds() const { return case_.attributes.op == ConvOp::kConvTransposeAdd; }
  Shape y_shape() const { return output_dims(case_.attributes, problem_); }

  Case case_;
  ConvProblem problem_;
  Options options_;
  const OrtCustomOp* op_;
  std::vector<T> src_, wei_, bias_, residual_;
  GpuTensor x_, w_, b_, r_;
  OrtValue output_shape_{};
  OrtKernelInfo info_;
  void* kernel_ = nullptr;
  bool owned_ = true;
};

}  // namespace ortconv::test
