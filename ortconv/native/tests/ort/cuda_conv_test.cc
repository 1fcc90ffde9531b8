// The kernels of the CUDA provider as ONNX Runtime meets them: on a fake GPU, whose memory only launches can touch,
// with numbers from the emulator, against the definition of the ops.
#include <atomic>
#include <cstdlib>
#include <thread>

#include "ort/convolution/op.h"
#include "ort/providers.h"
#include "testing/cuda/cuda_node.h"

extern "C" OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base);

namespace ortconv {
namespace {

using test::calls;
using test::Case;
using test::CaseMaker;
using test::count;
using test::expect_only_launches;
using test::kA100;
using test::kStream;
using test::Node;
using test::Options;
using test::registered;
using test::small_case;
using test::text_of;

template <class Fn>
void with_cuda_type(DataType dtype, Fn&& fn) {
  if (dtype == DataType::kFloat) fn(float());
  if (dtype == DataType::kFloat16) fn(Float16());
  if (dtype == DataType::kBfloat16) fn(Bfloat16());
}

TEST(registration_declares_memory_and_types) {
  OrtSessionOptions options;
  const auto ops = registered(&options);
  size_t cuda = 0, products = 0, gathering = 0, codebooks = 0, integer_convs = 0;
  size_t quantized = 0, fourier = 0;
  for (const OrtCustomOp* const op : ops) {
    const std::string name = op->GetName(op);
    if (name == "ForwardSTFT" || name == "InverseSTFT" || name == "OverlapAdd" || name == "FourierTransform") {
      EXPECT(op->GetInputCharacteristic(op, 0) == 0, name);
      const bool has_length = name == "FourierTransform";
      EXPECT(op->GetInputMemoryType(op, 0) == 0, name);
      EXPECT(op->GetInputMemoryType(op, 1) == (has_length ? -2 : 0), name);
      ++fourier;
      continue;
    }
    const bool is_affine = name == "QLinearConvolution";
    if (is_affine || name.rfind("QLinearTransposedConvolution", 0) == 0 ||
        name == "TransposedConvolutionIntegerToFloat") {
      cuda += std::string(op->GetExecutionProviderType(op)) == "CUDAExecutionProvider";
      const size_t own = name == "QLinearTransposedConvolutionAdd" ? 12 : is_affine ? 11 : name[0] == 'Q' ? 9 : 7;
      EXPECT(op->GetInputTypeCount(op) == own && op->GetInputCharacteristic(op, own - 1) == 0, name);
      ++quantized;
      continue;
    }
    const bool to_shape = name == "TransposedConvolutionToShape", adds = name == "TransposedConvolutionAdd";
    const bool by_codes = name == "MatMulCodebook", gathers_codes = name == "GatherMatMulCodebook";
    const bool multiplies = by_codes || name == "MatMulCompressed";
    const bool gathers = gathers_codes || name == "GatherMatMulCompressed";
    const bool of_integers = name == "ConvIntegerToFloat";
    const size_t inputs = of_integers ? 7 : gathers ? 5 : to_shape || adds || multiplies ? 4 : 3;
    EXPECT(op->GetInputTypeCount(op) == inputs, name);
    for (size_t i = 0; i < op->GetInputTypeCount(op); ++i) {
      const bool on_host = to_shape && i == 2;
      EXPECT(op->GetInputMemoryType(op, i) == (on_host ? -2 : 0), op->GetName(op), " input ", i);
    }
    cuda += std::string(op->GetExecutionProviderType(op)) == "CUDAExecutionProvider";
    products += multiplies, gathering += gathers, codebooks += by_codes + gathers_codes;
    integer_convs += of_integers;
    const size_t last = op->GetInputTypeCount(op) - 1;
    const bool is_required = by_codes || gathers_codes;
    EXPECT((op->GetInputCharacteristic(op, last) == 0) == is_required, name);
    if (is_required) EXPECT(op->GetInputType(op, last) == static_cast<int>(DataType::kFloat), name);
  }
  // Convolutions, products by four types of integers and by codes, and convolutions of integers, on two providers.
  EXPECT(cuda == 12 + products / 2 + gathering / 2 + integer_convs / 2 + quantized / 2, cuda);
  EXPECT(products == 10 * std::size(kMatMulTypes), products);
  EXPECT(gathering == 10 * std::size(kMatMulTypes), gathering);
  EXPECT(codebooks == 4 * std::size(kMatMulTypes), codebooks);
  EXPECT(integer_convs == 8, integer_convs);                     // of two types of data and two of weights
  EXPECT(fourier == 2 * 4 * std::size(kFourierTypes), fourier);  // four operators on two providers
  EXPECT(quantized == 2 * (4 + 8 + 8 + 8), quantized);  // of two types of data, two of weights, and two of results
  EXPECT(ops.size() == 4 * std::size(kDataTypes) + 12 + products + gathering + integer_convs + fourier + quantized,
         ops.size());
}

TEST(products_are_left_to_other_providers) {
  OrtSessionOptions options;
  options.config["ortconv.matmul_compressed"] = "0";
  for (const OrtCustomOp* const op : registered(&options)) {
    const std::string name = op->GetName(op);
    EXPECT(name.find("MatMulCompressed") == std::string::npos, name, " of ", op->GetExecutionProviderType(op));
  }
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

// What the kernels compute is tested with the plans; under sanitizers few problems do.
int case_count() {
  const char* const wanted = std::getenv("ORTCONV_CUDA_TEST_CASES");
  constexpr int kUsual = test::kSanitized ? 10 : 60;
  return wanted != nullptr ? std::atoi(wanted) : kUsual;
}

TEST(results_7_5) { check_random(case_count(), 21, false, 60, {75, 2, 64 << 10, 13020}); }
TEST(results_8_0) { check_random(case_count(), 22, false, 61, kA100); }
TEST(results_9_0) { check_random(case_count(), 23, false, 62, {90, 2, 227 << 10, 13020}); }
TEST(results_12_0) { check_random(case_count(), 24, false, 63, {120, 3, 99 << 10, 13020}); }

// Nothing reads a result, or gives memory back for good, before the stream has come to it.
TEST(results_on_a_stream_that_lags_behind) { check_random(case_count(), 25, true, 59, kA100); }

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
