// The emulator finds out what a GPU would not forgive.
#include <cstring>
#include <vector>

#include "testing/gpu/run.h"
#include "testing/test.h"

namespace ortconv::cuda::emulator {
namespace {

struct Params {
  int* result;
};

const char* const kParams = "struct Params { int* result; };\n";

// What a kernel with this body and 64 threads leaves in 64 integers.
std::vector<int> run_body(const std::string& body, const Choices& choices) {
  std::vector<int> result(64, -1);
  const Params params{result.data()};
  Launch launch;
  launch.function = "kernel";
  launch.block[0] = 64;
  launch.shared_bytes = 64 * sizeof(int);
  launch.params.resize(sizeof params);
  std::memcpy(launch.params.data(), &params, sizeof params);
  const std::string text = std::string(kParams) +
                           "KERNEL(kernel, Params, 64, 1) {\n"
                           "  using namespace ortconv::cuda;\n"
                           "  int* const shared = reinterpret_cast<int*>(shared_memory());\n"
                           "  const int thread = threadIdx.x;\n" +
                           body + "}\n";
  ptx::GlobalMemory memory;
  run_text(text, {}, kLeastSm, launch, memory, choices);
  return result;
}

std::string error_of(const std::string& body) {
  return test::refusal([&] { run_body(body, Choices()); });
}

bool is_reversed(const std::vector<int>& result) {
  for (int i = 0; i < 64; ++i) {
    if (result[i] != 63 - i) return false;
  }
  return true;
}

int count_reversed(const std::string& body, bool late_copies) {
  int count = 0;
  for (unsigned order = 0; order < 8; ++order) count += is_reversed(run_body(body, {order, late_copies}));
  return count;
}

TEST(missing_barriers_show) {
  const std::string write = "shared[thread] = thread;\n", read = "params.result[thread] = shared[63 - thread];\n";
  EXPECT(count_reversed(write + "__syncthreads();\n" + read, false) == 8, "with a barrier");
  EXPECT(count_reversed(write + read, false) == 0, "without");
}

TEST(copies_must_be_waited_for) {
  const std::string copy =
      "params.result[thread] = thread;\n__syncthreads();\n"
      "copy_async<4>(shared_address(shared_memory() + thread * 4), params.result + thread, true);\ncommit_copies();\n";
  const std::string wait = "wait_for_copies<0>();\n";
  const std::string read = "__syncthreads();\nparams.result[thread] = shared[63 - thread];\n";
  for (const bool late : {false, true}) EXPECT(count_reversed(copy + wait + read, late) == 8, "waited for");
  EXPECT(count_reversed(copy + read, true) == 0, "not waited for");
}

TEST(rules_are_kept) {
  EXPECT(error_of("").empty(), error_of(""));
  const std::string half = error_of("if (thread < 40) __syncthreads();\n");
  EXPECT(half.find("a barrier that 40 of 64 threads reach") != std::string::npos, half);
  const std::string product = "{ float sums[4] = {}; const unsigned a[4] = {}, b[2] = {}; mma_f16(sums, a, b); }\n";
  const std::string lanes = error_of("if (thread % 2 == 0) " + product);
  EXPECT(lanes.find("not all lanes of a warp are at mma") != std::string::npos, lanes);
  const std::string apart = error_of("if (thread == 3) { __syncthreads(); } else " + product);
  EXPECT(apart.find("not all lanes of a warp are at mma") != std::string::npos, apart);
  const std::string misaligned =
      error_of("copy_async<16>(shared_address(shared_memory() + 4), params.result, true);\n");
  EXPECT(misaligned.find("misaligned") != std::string::npos, misaligned);
  const std::string text = error_of("not C++\n");
  EXPECT(text.find("does not compile") != std::string::npos, text);
}

// Fragments by the layouts of the PTX ISA, checked through a product whose result is known.
TEST(matrices_are_multiplied) {
  const std::string body =
      // 16x16 and 8x16 halves: a[i][k] = i + 1 where k == i, b[k][j] = k * 8 + j, as [j][k].
      "unsigned short* const halves = reinterpret_cast<unsigned short*>(shared_memory());\n"
      "float sums[4] = {};\n"
      "for (int row = 0; row < 16; row += 2) {\n"
      "  unsigned a[4] = {}, b[2] = {};\n"
      "  const int lane = thread % 32;\n"
      "  for (int e = 0; e < 8; ++e) {\n"
      "    const int i = lane / 4 + e / 2 % 2 * 8, k = lane % 4 * 2 + e % 2 + e / 4 * 8;\n"
      "    if (i == k) a[e / 2] |= static_cast<unsigned>(half_of_float(float(i + 1))) << (e % 2 * 16);\n"
      "  }\n"
      "  for (int e = 0; e < 4; ++e) {\n"
      "    const int k = lane % 4 * 2 + e % 2 + e / 2 * 8, j = lane / 4;\n"
      "    if (k / 2 == row / 2) b[e / 2] |= static_cast<unsigned>(half_of_float(float(k * 8 + j))) << (e % 2 * 16);\n"
      "  }\n"
      "  mma_f16(sums, a, b);\n"
      "}\n"
      "bool right = halves != nullptr;\n"
      "for (int e = 0; e < 4; ++e) {\n"
      "  const int i = thread % 32 / 4 + e / 2 * 8, j = thread % 4 * 2 + e % 2;\n"
      "  right = right && sums[e] == float((i + 1) * (i * 8 + j));\n"
      "}\n"
      "params.result[thread] = right ? 63 - thread : -2;\n";
  EXPECT(is_reversed(run_body(body, Choices())), "a diagonal matrix");
}

}  // namespace
}  // namespace ortconv::cuda::emulator
