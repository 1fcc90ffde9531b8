// ConvIntegerToFloat in the CUDA provider as ONNX Runtime meets it: on the fake GPU, against the definition.
#include <string>
#include <vector>

#include "testing/cuda/cuda_node.h"
#include "testing/cuda/integer_cases.h"

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
using test::Zeros;

struct Known {
  bool weights = true, zeros = true;  // are constant
  bool shapes = false;
};

const OrtCustomOp* integer_conv_op(DataType x, DataType w) {
  static OrtSessionOptions options;
  static const auto ops = test::registered(&options);
  for (const OrtCustomOp* const op : ops) {
    if (std::string(op->GetName(op)) != "ConvIntegerToFloat") continue;
    if (std::string(op->GetExecutionProviderType(op)) != "CUDAExecutionProvider") continue;
    if (op->GetInputType(op, 0) == static_cast<int>(x) && op->GetInputType(op, 1) == static_cast<int>(w)) return op;
  }
  return nullptr;
}

// A node, its inputs and the expected result.
class IntegerNode {
 public:
  IntegerNode(const Case& c, const ConvProblem& p, const IntegerTensors& t, const Known& known, int device)
      : problem_(p),
        expected_(test::expected_of(t, p)),
        device_(device),
        op_(integer_conv_op(t.elements().x, t.elements().w)),
        x_(t.elements().x, c.x, t.x, device),
        w_(t.elements().w, c.w, t.w, device),
        x_scale_(DataType::kFloat, {}, t.x_scale, device),
        w_scale_(DataType::kFloat, shape_of(t.w_scale), t.w_scale, device),
        x_zero_(t.elements().x, {}, t.x_zero, device),
        w_zero_(t.elements().w, shape_of(t.w_zero), t.w_zero, device),
        bias_(DataType::kFloat, {p.oc}, t.bias, device) {
    info_.attributes = c.attributes;
    info_.memory = test::gpu_memory(device);
    inputs_ = {x_.value(),
               w_.value(),
               x_scale_.value(),
               w_scale_.value(),
               t.x_zero.empty() ? nullptr : x_zero_.value(),
               t.w_zero.empty() ? nullptr : w_zero_.value(),
               t.bias.empty() ? nullptr : bias_.value()};
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const OrtValue* const value = inputs_[i];
      info_.inputs.emplace_back();
      if (value == nullptr) continue;
      const Shape open(value->dims.size(), -1);
      info_.inputs.back().declared = OrtTensorTypeAndShapeInfo{value->type, known.shapes ? value->dims : open};
      const bool is_constant = (i == 1 && known.weights) || (i == 5 && known.zeros);
      if (is_constant) info_.inputs.back().constant = value;
    }
  }
  ~IntegerNode() {
    if (kernel_ != nullptr) op_->KernelDestroy(kernel_);
  }
  IntegerNode(const IntegerNode&) = delete;
  IntegerNode& operator=(const IntegerNode&) = delete;

  // Each returns what is wrong.
  std::string create() { return text_of(op_->CreateKernelV2(op_, test::fake_ort(), &info_, &kernel_)); }
  std::string check() {
    OrtKernelContext context;
    context.memory = test::gpu_memory(device_);
    context.stream = kStream;
    context.y_type = static_cast<int>(DataType::kFloat);
    context.inputs = inputs_;
    const std::string problem = text_of(op_->KernelComputeV2(kernel_, &context));
    if (!problem.empty()) return problem;
    fake_drain(kStream);
    std::vector<float> y(context.y_bytes / sizeof(float));
    fake_copy(y.data(), context.y->data, context.y_bytes);
    fake_free(context.y->data);
    if (y.size() != expected_.size()) return test::describe(y.size(), " elements");
    for (size_t i = 0; i < y.size(); ++i) {
      if (expected_[i] != static_cast<double>(y[i])) {
        return test::describe("element ", i, " is ", y[i], " not ", expected_[i]);
      }
    }
    return "";
  }

 private:
  template <class T>
  static Shape shape_of(const std::vector<T>& values) {
    return values.size() == 1 ? Shape{} : Shape{static_cast<int64_t>(values.size())};
  }

  ConvProblem problem_;
  std::vector<double> expected_;
  int device_;
  const OrtCustomOp* op_;
  GpuTensor x_, w_, x_scale_, w_scale_, x_zero_, w_zero_, bias_;
  std::vector<const OrtValue*> inputs_;
  OrtKernelInfo info_;
  void* kernel_ = nullptr;
};

Case small_case(int64_t group) {
  Case c;
  c.attributes = test::attributes(ConvOp::kConv, 2);
  c.attributes.group = group;
  c.attributes.pads = {1, 0, 1, 2};
  c.x = {2, 12, 7, 6};
  c.w = {24, 12 / group, 3, 2};
  return c;
}

TEST(convolutions_of_integers) {
  const FakeGpu gpus[] = {{75, 2, 64 << 10, 13020}, kA100, {90, 2, 227 << 10, 13020}};
  CaseMaker maker(53);
  for (int i = 0; i < 36 / test::kShare; ++i) {
    fake_configure(&gpus[i % 3]);
    fake_defer(i % 2 == 0);
    Case c = small_case(i % 4 == 0 ? 12 : 1);
    c.bias = maker.draw(0, 1) == 0;
    const ConvProblem p = c.problem(DataType::kInt8);
    const auto zeros = static_cast<Zeros>(maker.draw(0, 2));
    const IntegerTensors tensors = test::draw_tensors(maker, c, p, zeros, maker.draw(0, 3) != 0);
    const Known known{maker.draw(0, 2) != 0, maker.draw(0, 2) != 0, maker.draw(0, 1) == 0};
    IntegerNode node(c, p, tensors, known, 60 + i % 3);
    std::string problem = node.create();
    for (int run = 0; run < 2 && problem.empty(); ++run) problem = node.check();
    EXPECT(problem.empty(), c.describe(), " weights ", known.weights, " zeros ", known.zeros, " shapes ", known.shapes,
           ": ", problem);
  }
  fake_defer(false);
  fake_configure(&kA100);
  const test::Allocations left = test::allocations();
  EXPECT(left.blocks == 0 && left.allocators == 0, left.blocks, ' ', left.allocators);
}

// No compilation, no synchronization, no copy; with known shapes not even in the first run.
TEST(a_convolution_of_integers_does_nothing_but_launch) {
  CaseMaker maker(59);
  for (const int64_t group : {1, 12}) {
    for (const bool known_shapes : {true, false}) {
      const Case c = small_case(group);
      const ConvProblem p = c.problem(DataType::kInt8);
      IntegerNode node(c, p, test::draw_tensors(maker, c, p, Zeros::kChannels, true), {true, true, known_shapes}, 0);
      EXPECT(node.create().empty(), "creation");
      std::string problem = known_shapes ? "" : node.check();
      fake_clear_log();
      if (problem.empty()) problem = node.check();
      EXPECT(problem.empty(), problem);
      test::expect_only_launches(fake_log());
      // A copy of X and the products, or one launch for groups of one channel: the weights are packed.
      EXPECT(calls("cuLaunchKernel") == (group == 1 ? 2 : 1), fake_log());
    }
  }
}

TEST(failures_of_the_driver_are_errors_of_the_convolution_of_integers) {
  CaseMaker maker(61);
  int device = 56;
  for (const char* const function : {"cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuLaunchKernel"}) {
    const Case c = small_case(1);
    const ConvProblem p = c.problem(DataType::kInt8);
    IntegerNode node(c, p, test::draw_tensors(maker, c, p, Zeros::kOne, true), {}, device++);
    fake_fail(function, 2, 0);
    const std::string problem = node.create();
    fake_fail(nullptr, 0, 0);
    EXPECT(count(problem, "org.ortconv.ConvIntegerToFloat 'node': ") == 1 && count(problem, "as the test wants") == 1,
           function, ": ", problem);
    EXPECT(node.create().empty() && node.check().empty(), function, " again");
  }
}

}  // namespace
}  // namespace ortconv
