// What goes wrong in the CUDA provider is an error of the node that names the cause, and the next try works.
#include <cstdlib>

#include "testing/cuda/cuda_node.h"

namespace ortconv {
namespace {

using test::calls;
using test::Case;
using test::CaseMaker;
using test::count;
using test::kStream;
using test::Node;
using test::Options;
using test::small_case;

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
    EXPECT(count(problem, "org.ortconv.TransposedConvolution 'node': ") == 1 && count(problem, "31 channels") == 1,
           problem);
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
      EXPECT(count(problem, "org.ortconv.TransposedConvolution 'node': ") == 1, problem);
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

}  // namespace
}  // namespace ortconv
