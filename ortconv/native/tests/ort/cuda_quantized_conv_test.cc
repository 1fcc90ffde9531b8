// Transposed convolutions of 8-bit integers, and QLinearConvolution, in the CUDA provider as ONNX Runtime meets them:
// on the fake GPU, equal to the definition.
#include <list>
#include <string>
#include <vector>

#include "testing/cuda/cuda_node.h"
#include "testing/cuda/quantized_cases.h"

namespace ortconv {
namespace {

using test::calls;
using test::Case;
using test::CaseMaker;
using test::count;
using test::GpuTensor;
using test::IntegerTensors;
using test::kA100;
using test::kStream;
using test::text_of;
using Kind = test::QuantizedKind;

constexpr Kind kKinds[] = {Kind::kToFloat, Kind::kQuantized, Kind::kQuantizedAdd, Kind::kAffine};
constexpr size_t kW = 3, kWZero = 5;

const char* name_of(Kind kind) {
  const char* const names[] = {"TransposedConvolutionIntegerToFloat", "QLinearTransposedConvolution",
                               "QLinearTransposedConvolutionAdd", "QLinearConvolution"};
  return names[static_cast<int>(kind)];
}

const OrtCustomOp* quantized_op(Kind kind, const cuda::Elements& elements) {
  static OrtSessionOptions options;
  static const auto ops = test::registered(&options);
  const auto is = [](int type, DataType dtype) { return type == static_cast<int>(dtype); };
  for (const OrtCustomOp* const op : ops) {
    if (std::string(op->GetName(op)) != name_of(kind)) continue;
    if (std::string(op->GetExecutionProviderType(op)) != "CUDAExecutionProvider") continue;
    if (is(op->GetInputType(op, 0), elements.x) && is(op->GetInputType(op, kW), elements.w) &&
        is(op->GetOutputType(op, 0), elements.y)) {
      return op;
    }
  }
  return nullptr;
}

struct Known {
  bool weights = true, zero = true;  // are constant
  bool shapes = false;
};

// A node, its inputs and the expected result.
class QuantizedNode {
 public:
  QuantizedNode(Kind kind, const Case& c, const ConvProblem& p, const IntegerTensors& t, const Known& known, int device)
      : expected_(test::expected_of(t, p)), tensors_(t), device_(device), op_(quantized_op(kind, t.elements())) {
    info_.attributes = c.attributes;
    info_.attributes.activation = p.activation;
    info_.memory = test::gpu_memory(device);
    const cuda::Elements elements = t.elements();
    Shape y = {p.mb, p.oc}, plain(static_cast<size_t>(p.ndims) + 1, 1);
    y.insert(y.end(), p.dst_size, p.dst_size + p.ndims);
    plain[0] = p.oc;
    add(elements.x, c.x, t.x);
    add(DataType::kFloat, {}, t.x_scale);
    add(elements.x, {1}, t.x_zero);
    add(elements.w, c.w, t.w);
    add(DataType::kFloat, {static_cast<int64_t>(t.w_scale.size())}, t.w_scale);
    add(elements.w, {}, t.w_zero);
    if (t.quantized()) {
      add(DataType::kFloat, {}, t.y_scale);
      add(elements.y, {}, t.y_zero);
    }
    add(DataType::kFloat,
        t.has_element_bias      ? Shape(y.begin() + 1, y.end())
        : kind == Kind::kAffine ? plain
                                : Shape{p.oc},
        t.bias);
    if (kind == Kind::kQuantizedAdd) {
      add(elements.y, y, t.residual);
      add(DataType::kFloat, {}, t.residual_scale);
      add(elements.y, {}, t.residual_zero);
    }
    if (kind == Kind::kAffine) {
      add(DataType::kFloat, {p.oc}, t.factor);
      add(DataType::kFloat, {p.oc}, t.addend);
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const OrtValue* const value = inputs_[i];
      const Shape open(value->dims.size(), -1);
      info_.inputs.emplace_back();
      info_.inputs.back().declared = OrtTensorTypeAndShapeInfo{value->type, known.shapes ? value->dims : open};
      if ((i == kW && known.weights) || (i == kWZero && known.zero)) info_.inputs.back().constant = value;
    }
  }
  ~QuantizedNode() {
    if (kernel_ != nullptr) op_->KernelDestroy(kernel_);
  }
  QuantizedNode(const QuantizedNode&) = delete;
  QuantizedNode& operator=(const QuantizedNode&) = delete;

  // Each returns what is wrong.
  std::string create() { return text_of(op_->CreateKernelV2(op_, test::fake_ort(), &info_, &kernel_)); }
  std::string check() {
    OrtKernelContext context;
    context.memory = test::gpu_memory(device_);
    context.stream = kStream;
    context.y_type = static_cast<int>(tensors_.elements().y);
    context.inputs = inputs_;
    const std::string problem = text_of(op_->KernelComputeV2(kernel_, &context));
    if (!problem.empty()) return problem;
    fake_drain(kStream);
    std::vector<uint8_t> bytes(context.y_bytes);
    fake_copy(bytes.data(), context.y->data, context.y_bytes);
    fake_free(context.y->data);
    const size_t size = tensors_.quantized() ? 1 : sizeof(float);
    if (bytes.size() != expected_.size() * size) return test::describe(bytes.size(), " bytes");
    for (size_t i = 0; i < expected_.size(); ++i) {
      float value;
      if (tensors_.quantized()) {
        value = static_cast<float>(test::value_of(bytes[i], tensors_.y_signed));
      } else {
        std::memcpy(&value, &bytes[i * size], size);
      }
      if (static_cast<double>(value) != expected_[i]) {
        return test::describe("element ", i, " is ", value, " not ", expected_[i]);
      }
    }
    return "";
  }

 private:
  template <class T>
  void add(DataType dtype, const Shape& dims, const std::vector<T>& data) {
    gpu_.emplace_back(dtype, dims, data, device_);
    inputs_.push_back(gpu_.back().value());
  }

  std::vector<double> expected_;
  IntegerTensors tensors_;
  int device_;
  const OrtCustomOp* op_;
  std::list<GpuTensor> gpu_;
  std::vector<const OrtValue*> inputs_;
  OrtKernelInfo info_;
  void* kernel_ = nullptr;
};

struct Drawn {
  Case c;
  ConvProblem p;
  IntegerTensors t;
};

Drawn draw(CaseMaker& maker, Kind kind, int64_t group) {
  Drawn drawn;
  Case& c = drawn.c;
  c.attributes = test::attributes(test::direction_of(kind), 2);
  c.attributes.group = group;
  c.attributes.strides = {2, 1};
  c.attributes.pads = {1, 0, 1, 2};
  c.bias = true;
  c.x = {2, 12, 7, 6};
  c.w = kind == Kind::kAffine ? Shape{24, 12 / group, 3, 2} : Shape{12, 24 / group, 3, 2};
  drawn.p = c.problem(DataType::kInt8);
  if (maker.draw(0, 1) == 0) drawn.p.activation = {0.25f, -100, 500};
  if (kind == Kind::kAffine && maker.draw(0, 1) == 0) drawn.p.activation.hard_sigmoid = {0.01f, 0.5f};
  c.attributes.activation = drawn.p.activation;
  drawn.t = test::draw_tensors(maker, c, drawn.p, test::Zeros::kOne, maker.draw(0, 3) != 0);
  test::draw_result(maker, kind, c, drawn.p, &drawn.t);
  return drawn;
}

TEST(quantized_convolutions) {
  const FakeGpu gpus[] = {{75, 2, 64 << 10, 13020}, kA100, {90, 2, 227 << 10, 13020}};
  CaseMaker maker(163);
  for (int i = 0; i < 48 / test::kShare; ++i) {
    fake_configure(&gpus[i % 3]);
    fake_defer(i % 2 == 0);
    const Kind kind = kKinds[i / 3 % 4];
    const Drawn d = draw(maker, kind, i % 5 == 0 ? 12 : 1);
    const Known known{maker.draw(0, 2) != 0, maker.draw(0, 2) != 0, maker.draw(0, 1) == 0};
    QuantizedNode node(kind, d.c, d.p, d.t, known, 64 + i % 3);
    std::string problem = node.create();
    for (int run = 0; run < 2 && problem.empty(); ++run) problem = node.check();
    EXPECT(problem.empty(), name_of(kind), ' ', d.c.describe(), " weights ", known.weights, " zero ", known.zero,
           " shapes ", known.shapes, ": ", problem);
  }
  fake_defer(false);
  fake_configure(&kA100);
  const test::Allocations left = test::allocations();
  EXPECT(left.blocks == 0 && left.allocators == 0, left.blocks, ' ', left.allocators);
}

// No compilation, no synchronization, no copy.
TEST(a_quantized_convolution_does_nothing_but_launch) {
  CaseMaker maker(167);
  for (const Kind kind : kKinds) {
    for (const int64_t group : {1, 12}) {
      const Drawn d = draw(maker, kind, group);
      QuantizedNode node(kind, d.c, d.p, d.t, {}, 0);
      EXPECT(node.create().empty(), "creation");
      std::string problem = node.check();
      fake_clear_log();
      if (problem.empty()) problem = node.check();
      EXPECT(problem.empty(), problem);
      test::expect_only_launches(fake_log());
      // A copy of X and the products, or one launch for groups of few channels: the weights are packed.
      EXPECT(calls("cuLaunchKernel") == (group == 1 ? 2 : 1), fake_log());
    }
  }
}

TEST(failures_of_the_driver_are_errors_of_the_quantized_convolution) {
  CaseMaker maker(173);
  int device = 67;
  for (const char* const function : {"cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuLaunchKernel"}) {
    const Drawn d = draw(maker, Kind::kQuantized, 1);
    QuantizedNode node(Kind::kQuantized, d.c, d.p, d.t, {}, device++);
    fake_fail(function, 2, 0);
    const std::string problem = node.create();
    fake_fail(nullptr, 0, 0);
    EXPECT(count(problem, "org.ortconv.QLinearTransposedConvolution 'node': ") == 1 &&
               count(problem, "as the test wants") == 1,
           function, ": ", problem);
    EXPECT(node.create().empty() && node.check().empty(), function, " again");
  }
}

}  // namespace
}  // namespace ortconv
