// The kernels of the CUDA provider as ONNX Runtime meets them: on a fake GPU, whose memory only launches can touch,
// with numbers from the emulator, against the definition of the ops; exact, see CaseMaker::values.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include "ort/cuda_conv_kernel.h"
#include "tests/cases.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_ort.h"
#include "tests/test.h"

extern "C" OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base);

namespace ortconv {
namespace {

using test::Case;
using test::CaseMaker;

constexpr FakeGpu kA100 = {80, 3, 163 << 10, 13020};
void* const kStream = reinterpret_cast<void*>(0x5000);

// The text of a status, which is deleted; empty for success.
std::string text_of(OrtStatus* status) {
  const std::unique_ptr<OrtStatus> owned(status);
  return status != nullptr ? status->message : "";
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// How often a function was called since the log was cleared.
int calls(const std::string& function) {
  std::istringstream lines(fake_log());
  int found = 0;
  for (std::string line; std::getline(lines, line);) found += line.substr(0, line.find(' ')) == function;
  return found;
}

// The ops as sessions with these options get them.
std::vector<const OrtCustomOp*> registered(OrtSessionOptions* options) {
  EXPECT(text_of(RegisterCustomOps(options, test::fake_ort_base())).empty(), "registration");
  return options->domains.at(0)->ops;
}

const OrtCustomOp* cuda_op(ConvOp op, DataType dtype, bool tf32 = false) {
  static const std::vector<const OrtCustomOp*> all[] = {
      [] {
        OrtSessionOptions options;
        return registered(&options);
      }(),
      [] {
        OrtSessionOptions options;
        options.config["ortconv.cuda.use_tf32"] = "1";
        return registered(&options);
      }(),
  };
  const char* const names[] = {"ConvTranspose", "ConvTransposeToShape", "Conv", "ConvTransposeAdd"};
  for (const OrtCustomOp* const found : all[tf32]) {
    if (std::string(found->GetName(found)) != names[static_cast<int>(op)]) continue;
    if (std::string(found->GetExecutionProviderType(found)) != "CUDAExecutionProvider") continue;
    if (found->GetInputType(found, 0) == static_cast<int>(dtype)) return found;
  }
  return nullptr;
}

// A tensor on the GPU.
class GpuTensor {
 public:
  template <class T>
  GpuTensor(DataType dtype, const Shape& dims, const std::vector<T>& data, int device) {
    const size_t bytes = data.size() * sizeof(T);
    value_ = {static_cast<int>(dtype), dims, test::gpu_memory(device), fake_allocate(bytes)};
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
        src_(maker.values<T>(test::count_of(c.x))),
        wei_(maker.values<T>(test::count_of(c.w))),
        bias_(maker.values<T>(c.bias ? p.oc : 0)),
        residual_(maker.values<T>(adds() ? test::count_of(y_shape()) : 0)),
        x_(dtype, c.x, src_, options.device),
        w_(dtype, c.w, wei_, options.device),
        b_(dtype, {p.oc}, bias_, options.device),
        r_(dtype, y_shape(), residual_, options.device) {
    if (c.output_shape) {
      output_shape_ = {static_cast<int>(DataType::kInt64),
                       {static_cast<int64_t>(c.output_shape->size())},
                       test::host_memory(),
                       case_.output_shape->data()};
    }
    info_.attributes = c.attributes;
    info_.attributes.accumulation_type = static_cast<int64_t>(DataType::kFloat);
    info_.memory = test::gpu_memory(options.device);
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
  std::string create() { return text_of(op_->CreateKernelV2(op_, test::fake_ort(), &info_, &kernel_)); }

  // Uses the kernel of another node of the same attributes.
  void borrow(const Node& other) {
    kernel_ = other.kernel_;
    owned_ = false;
  }

  // Runs, also on another stream; returns what is wrong, after which y() holds the result once the stream is drained.
  std::string enqueue(OrtKernelContext* context) {
    if (kernel_ == nullptr) return "there is no kernel";
    context->memory = test::gpu_memory(options_.device);
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
    const std::vector<T> expected =
        test::oracle(problem_, case_.op(), src_.data(), wei_.data(), case_.bias ? bias_.data() : nullptr,
                     adds() ? residual_.data() : nullptr);
    if (y.size() != expected.size()) return test::describe(y.size(), " elements, not ", expected.size());
    for (size_t i = 0; i < y.size(); ++i) {
      if (std::memcmp(&y[i], &expected[i], sizeof(T)) != 0) {
        return test::describe("element ", i, " is ", test::widen(y[i]), " not ", test::widen(expected[i]));
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

template <class Fn>
void with_cuda_type(DataType dtype, Fn&& fn) {
  if (dtype == DataType::kFloat) fn(float());
  if (dtype == DataType::kFloat16) fn(Float16());
  if (dtype == DataType::kBfloat16) fn(Bfloat16());
}

// A small problem with weights that a kernel may want to pack.
Case small_case() {
  Case c;
  c.attributes = test::attributes(ConvOp::kConvTranspose, 2);
  c.attributes.strides = {2, 2};
  c.attributes.pads = {1, 0, 0, 1};
  c.x = {1, 32, 5, 6};
  c.w = {32, 24, 3, 3};
  return c;
}

TEST(registration_declares_memory_and_types) {
  OrtSessionOptions options;
  const auto ops = registered(&options);
  size_t cuda = 0;
  for (const OrtCustomOp* const op : ops) {
    const std::string name = op->GetName(op);
    const bool to_shape = name == "ConvTransposeToShape", adds = name == "ConvTransposeAdd";
    EXPECT(op->GetInputTypeCount(op) == (to_shape || adds ? 4 : 3), name);
    for (size_t i = 0; i < op->GetInputTypeCount(op); ++i) {
      const bool on_host = to_shape && i == 2;
      EXPECT(op->GetInputMemoryType(op, i) == (on_host ? -2 : 0), op->GetName(op), " input ", i);
    }
    cuda += std::string(op->GetExecutionProviderType(op)) == "CUDAExecutionProvider";
  }
  EXPECT(cuda == 12, cuda);
  EXPECT(ops.size() == 4 * std::size(kDataTypes) + 12, ops.size());
}

TEST(registration_reads_use_tf32) {
  OrtSessionOptions options;
  options.config["ortconv.cuda.use_tf32"] = "yes";
  EXPECT(count(text_of(RegisterCustomOps(&options, test::fake_ort_base())), "'yes' is not supported; allowed: 0, 1"),
         "a bad value");
  options.config["ortconv.cuda.use_tf32"] = "0";
  registered(&options);
  registered(&options);  // twice is harmless
  EXPECT(options.domains.size() == 1, options.domains.size());
  options.config["ortconv.cuda.use_tf32"] = "1";
  EXPECT(count(text_of(RegisterCustomOps(&options, test::fake_ort_base())), "has to be set before"), "a late change");
}

// On a device that no other test uses.
void check_random(int cases, uint64_t seed, bool deferred, int device, const FakeGpu& gpu) {
  CaseMaker maker(seed);
  fake_configure(&gpu);
  fake_defer(deferred);
  int taken = 0;
  for (int i = 0; i < cases; ++i) {
    Case c = maker.make(static_cast<int>(maker.draw(1, 4)));
    if (c.residual && c.attributes.op == ConvOp::kConvTranspose) c.attributes.op = ConvOp::kConvTransposeAdd;
    const DataType dtype = kCudaTypes[maker.draw(0, 2)];
    Options options;
    options.device = device;
    options.constant_weights = maker.draw(0, 1) == 0;
    options.known_shapes = maker.draw(0, 1) == 0;
    options.tf32 = maker.draw(0, 3) == 0;  // the values of a case are exact in TF32, too
    ConvProblem p;
    try {
      p = c.problem(dtype);
    } catch (const Error&) {
      continue;
    }
    with_cuda_type(dtype, [&](auto zero) {
      Node<decltype(zero)> node(maker, c, p, dtype, options);
      std::string problem = node.create();
      if (problem.empty()) problem = node.check();
      EXPECT(problem.empty(), "type ", static_cast<int>(dtype), options.constant_weights ? " constant weights " : " ",
             options.known_shapes ? "known shapes " : " ", c.describe(), ": ", problem);
    });
    ++taken;
  }
  EXPECT(taken > cases / 2, "only ", taken, " cases were taken");
  const test::Allocations left = test::allocations();
  EXPECT(left.blocks == 0 && left.allocators == 0 && left.bytes == 0, left.blocks, ' ', left.allocators, ' ',
         left.bytes);
  fake_defer(false);
  fake_configure(&kA100);
}

int case_count(int usual) {
  const char* const more = std::getenv("ORTCONV_CUDA_TEST_CASES");
  return more != nullptr ? std::atoi(more) : usual;
}

TEST(results_7_5) { check_random(case_count(60), 21, false, 60, {75, 2, 64 << 10, 13020}); }
TEST(results_8_0) { check_random(case_count(60), 22, false, 61, kA100); }
TEST(results_9_0) { check_random(case_count(60), 23, false, 62, {90, 2, 227 << 10, 13020}); }
TEST(results_12_0) { check_random(case_count(60), 24, false, 63, {120, 3, 99 << 10, 13020}); }

// Nothing reads a result, or gives memory back for good, before the stream has come to it.
TEST(results_on_a_stream_that_lags_behind) { check_random(case_count(60), 25, true, 59, kA100); }

TEST(refused_sizes_are_an_error_of_the_run) {
  CaseMaker maker(3);
  Case c = small_case();
  ConvProblem p = c.problem(DataType::kFloat);
  c.x[1] = 31;  // W has 32
  for (const bool known_shapes : {false, true}) {
    Options options;
    options.known_shapes = known_shapes;
    Node<float> node(maker, c, p, DataType::kFloat, options);
    EXPECT(node.create().empty(), "creation");
    OrtKernelContext context;
    context.stream = kStream;
    const std::string problem = node.enqueue(&context);
    EXPECT(count(problem, "org.ortconv.ConvTranspose 'node': ") == 1 && count(problem, "31 channels") == 1, problem);
  }
}

TEST(residual_of_another_shape_is_refused) {
  CaseMaker maker(4);
  Case c = small_case();
  c.attributes.op = ConvOp::kConvTransposeAdd;
  ConvProblem p = c.problem(DataType::kFloat);
  p.dst_size[1] += 1;
  Node<float> node(maker, c, p, DataType::kFloat, {});
  EXPECT(node.create().empty(), "creation");
  OrtKernelContext context;
  context.stream = kStream;
  const std::string problem = node.enqueue(&context);
  EXPECT(count(problem, "input R has shape [1, 24, 10, 13]; allowed: [1, 24, 10, 12], as Y has") == 1, problem);
}

// The calls of a run once it is warm: no compilation, no synchronization, no copy.
std::string calls_of_run(Node<float>& node, void* stream) {
  OrtKernelContext context;
  context.stream = stream;
  fake_clear_log();
  EXPECT(node.enqueue(&context).empty(), "run");
  const std::string log = fake_log();
  fake_drain(stream);
  node.result(context);
  return log;
}

void expect_only_launches(const std::string& log) {
  std::istringstream lines(log);
  std::ostringstream stream;
  stream << "stream " << kStream;
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(0, line.find(' '));
    const bool allowed = name == "cuCtxGetCurrent" || name == "cuCtxPushCurrent" || name == "cuCtxPopCurrent" ||
                         (name == "cuLaunchKernel" && count(line, stream.str()) == 1);
    EXPECT(allowed, line);
  }
  EXPECT(count(log, "cuLaunchKernel") > 0, log);
}

TEST(a_warm_run_does_nothing_but_launch) {
  for (const bool constant_weights : {true, false}) {
    CaseMaker maker(5);
    const Case c = small_case();
    Options options;
    options.constant_weights = constant_weights;
    Node<float> node(maker, c, c.problem(DataType::kFloat), DataType::kFloat, options);
    EXPECT(node.create().empty(), "creation");
    calls_of_run(node, kStream);
    expect_only_launches(calls_of_run(node, kStream));
  }
}

TEST(known_shapes_are_compiled_at_creation) {
  CaseMaker maker(5);
  const Case c = small_case();
  Options options;
  options.known_shapes = true;
  options.device = 1;  // on which nothing is loaded yet
  Node<float> node(maker, c, c.problem(DataType::kFloat), DataType::kFloat, options);
  fake_clear_log();
  EXPECT(node.create().empty(), "creation");
  EXPECT(count(fake_log(), "cuModuleLoadData") > 0, fake_log());
  expect_only_launches(calls_of_run(node, kStream));
}

TEST(constant_weights_are_packed_once) {
  CaseMaker maker(5);
  const Case c = small_case();
  Node<Float16> node(maker, c, c.problem(DataType::kFloat16), DataType::kFloat16, {});
  fake_clear_log();
  EXPECT(node.create().empty(), "creation");
  const std::string log = fake_log();
  // The GPU is waited for only where it was given work.
  EXPECT(count(log, "cuStreamSynchronize") == (count(log, "cuLaunchKernel") > 0 ? 1 : 0), log);
  EXPECT((test::allocations().blocks == 1) == (count(log, "cuLaunchKernel") > 0), log);
  EXPECT(node.check().empty(), "run");
}

TEST(runs_outside_of_any_context_and_leave_none) {
  CaseMaker maker(6);
  const Case c = small_case();
  Node<float> node(maker, c, c.problem(DataType::kFloat), DataType::kFloat, {});
  EXPECT(node.create().empty(), "creation");
  std::thread([&] {
    OrtKernelContext context;
    context.stream = kStream;
    fake_clear_log();
    EXPECT(node.enqueue(&context).empty(), "run");
    const std::string log = fake_log();
    EXPECT(count(log, "cuCtxPushCurrent 0") == 1 && count(log, "cuCtxPopCurrent") == 1, log);
    node.result(context);
  }).join();
}

TEST(runs_on_the_default_stream) {
  CaseMaker maker(7);
  Options options;
  options.stream = nullptr;
  options.constant_weights = false;
  const Case c = small_case();
  Node<Float16> node(maker, c, c.problem(DataType::kFloat16), DataType::kFloat16, options);
  EXPECT(node.create().empty(), "creation");
  const std::string problem = node.check();
  EXPECT(problem.empty(), problem);
}

// A capture forbids that modules are loaded, but for threads that ask for it.
TEST(programs_are_loaded_even_during_a_capture) {
  CaseMaker maker(8);
  const Case c = small_case();
  Options options;
  options.device = 2;
  options.constant_weights = false;
  Node<float> node(maker, c, c.problem(DataType::kFloat), DataType::kFloat, options);
  EXPECT(node.create().empty(), "creation");
  fake_capture(true);
  const std::string problem = node.check();
  fake_capture(false);
  EXPECT(problem.empty(), problem);
}

TEST(more_sizes_than_are_kept) {
  CaseMaker maker(9);
  Case c = small_case();
  Options options;
  options.constant_weights = false;
  Node<float> node(maker, c, c.problem(DataType::kFloat), DataType::kFloat, options);
  EXPECT(node.create().empty(), "creation");
  for (int round = 0; round < 2; ++round) {
    for (int64_t size = 1; size <= 40; ++size) {
      c.x = {1, 32, 1, size};
      Node<float> other(maker, c, c.problem(DataType::kFloat), DataType::kFloat, options);
      other.borrow(node);
      const std::string problem = other.check();
      EXPECT(problem.empty(), "size ", size, ": ", problem);
    }
  }
}

TEST(runs_on_several_threads_and_streams) {
  CaseMaker maker(10);
  const Case c = small_case();
  Options options;
  options.device = 3;
  Node<float> node(maker, c, c.problem(DataType::kFloat), DataType::kFloat, options);
  EXPECT(node.create().empty(), "creation");
  OrtKernelContext first;
  first.stream = kStream;
  EXPECT(node.enqueue(&first).empty(), "run");
  const std::vector<float> expected = node.result(first);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        OrtKernelContext context;
        context.stream = reinterpret_cast<void*>(static_cast<uintptr_t>(0x6000 + t));
        wrong += !node.enqueue(&context).empty() || node.result(context) != expected;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(wrong == 0, wrong);
}

// Every call of the driver, one after the other, at creation and in a run.
TEST(every_failure_of_the_driver_is_an_error_of_the_node) {
  CaseMaker maker(11);
  const Case c = small_case();
  int device = 10;
  for (const char* const function :
       {"cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuCtxGetCurrent",
        "cuCtxPushCurrent", "cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel", "cuStreamSynchronize"}) {
    for (int skipped = 0; skipped < 2; ++skipped) {
      Options options;
      options.device = device++;
      Node<Float16> node(maker, c, c.problem(DataType::kFloat16), DataType::kFloat16, options);
      fake_clear_log();
      fake_fail(function, 2, skipped);
      std::string problem = node.create();
      const bool failed_at_creation = !problem.empty();
      if (!failed_at_creation) problem = node.check();
      const bool called = calls(function) > skipped;
      fake_fail(nullptr, 0, 0);
      EXPECT(problem.empty() == !called, function, ' ', skipped, ": ", problem);
      if (!called) continue;
      EXPECT(count(problem, "org.ortconv.ConvTranspose 'node': ") == 1, problem);
      EXPECT(count(problem, "CUDA_ERROR_OUT_OF_MEMORY (2): as the test wants. The GPU has too little free memory") == 1,
             problem);
      // What failed is tried anew.
      if (failed_at_creation) problem = node.create();
      if (failed_at_creation) EXPECT(problem.empty(), function, " again: ", problem);
      problem = node.check();
      EXPECT(problem.empty(), function, " again: ", problem);
    }
  }
  const test::Allocations left = test::allocations();
  EXPECT(left.blocks == 0 && left.allocators == 0, left.blocks, ' ', left.allocators);
}

TEST(every_failure_of_the_compiler_is_an_error_of_the_node) {
  CaseMaker maker(12);
  const Case c = small_case();
  int device = 40;
  setenv("ORTCONV_CUDA_CACHE", "off", 1);
  for (const char* const function :
       {"nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetCUBINSize", "nvrtcGetCUBIN"}) {
    Options options;
    options.device = device++;
    options.known_shapes = true;
    Node<float> node(maker, c, c.problem(DataType::kFloat), DataType::kFloat, options);
    setenv("ORTCONV_FAKE_NVRTC", (std::string("13020 ") + function + " 6").c_str(), 1);
    const std::string problem = node.create();
    unsetenv("ORTCONV_FAKE_NVRTC");
    EXPECT(count(problem, "NVRTC 13.2") == 1 && count(problem, "NVRTC_ERROR_OF_A_FAKE (6)") == 1, function, ": ",
           problem);
    if (std::string(function) == "nvrtcCompileProgram") EXPECT(count(problem, "line 1: as the test wants"), problem);
    EXPECT(node.create().empty(), function, " again");
  }
  unsetenv("ORTCONV_CUDA_CACHE");
}

TEST(too_little_memory_is_an_error_of_the_node) {
  CaseMaker maker(13);
  const Case c = small_case();
  for (const bool constant_weights : {true, false}) {
    Options options;
    options.constant_weights = constant_weights;
    Node<Float16> node(maker, c, c.problem(DataType::kFloat16), DataType::kFloat16, options);
    test::limit_allocations(16);
    std::string problem = node.create();
    EXPECT(problem.empty() == !constant_weights, "creation: ", problem);  // which packs weights that are constant
    if (!constant_weights) problem = node.check();
    EXPECT(count(problem, "there is no room for") == 1 && count(problem, "gpu_mem_limit") == 1, problem);
    test::limit_allocations(SIZE_MAX);
    if (constant_weights) EXPECT(node.create().empty(), "creation");
    problem = node.check();
    EXPECT(problem.empty(), "with room: ", problem);
  }
  const test::Allocations left = test::allocations();
  EXPECT(left.blocks == 0 && left.allocators == 0, left.blocks, ' ', left.allocators);
}

// Runs of a stream share a block, which grows with the largest of them; another stream has another.
TEST(scratch_is_kept_for_the_next_run) {
  CaseMaker maker(14);
  Case c = small_case();
  Options options;
  options.constant_weights = false;
  Node<Float16> node(maker, c, c.problem(DataType::kFloat16), DataType::kFloat16, options);
  EXPECT(node.create().empty() && test::allocations().blocks == 0, test::allocations().blocks);
  size_t bytes = 0;
  int blocks = 0;
  for (const int64_t channels : {24, 24, 16, 40, 64, 24}) {
    c.w = {32, channels, 3, 3};
    Node<Float16> other(maker, c, c.problem(DataType::kFloat16), DataType::kFloat16, options);
    other.borrow(node);
    const std::string problem = other.check();
    EXPECT(problem.empty(), channels, " channels: ", problem);
    const test::Allocations now = test::allocations();
    const bool grows = bytes == 0 || channels == 40;  // to twice the size, where 64 channels have room
    EXPECT(now.blocks == blocks + grows, channels, " channels: ", now.blocks, " blocks");
    EXPECT((now.bytes > bytes) == grows, channels, " channels: ", now.bytes, " bytes");
    bytes = now.bytes;
    blocks = now.blocks;
  }
  options.stream = reinterpret_cast<void*>(uintptr_t{0x7000});
  Node<Float16> elsewhere(maker, c, c.problem(DataType::kFloat16), DataType::kFloat16, options);
  elsewhere.borrow(node);
  EXPECT(elsewhere.check().empty() && test::allocations().blocks == 3, test::allocations().blocks);
}

}  // namespace
}  // namespace ortconv
