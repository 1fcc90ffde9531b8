// Programs that plans ask for, compiled by NVIDIA's compiler for every generation of devices: needs no GPU, but an
// NVRTC, which ORTCONV_NVRTC may name. Without one nothing is tested, and the test says so. There are about a thousand
// programs for each device; those compiled are one of each source and as many others as ORTCONV_CUDA_TEST_CASES says.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cuda/host/error.h"
#include "cuda/host/nvrtc.h"
#include "cuda/plan.h"
#include "ort/cuda_conv_kernel.h"
#include "tests/cases.h"
#include "tests/test.h"

namespace ortconv::cuda {
namespace {

constexpr int kNewestDriver = 1000000;  // any release of the compiler will do

// One of each generation, with the shared memory that it has.
constexpr Device kDevices[] = {{75, 40, 64 << 10},   {80, 108, 163 << 10},  {86, 84, 99 << 10},
                               {90, 132, 227 << 10}, {100, 148, 227 << 10}, {120, 170, 99 << 10}};

const Nvrtc* compiler() {
  try {
    return &Nvrtc::get(kNewestDriver);
  } catch (const DeviceError& error) {
    std::printf("     not tested: %s\n", error.what());
    return nullptr;
  }
}

void collect(const std::vector<Launch>& launches, std::set<ProgramKey>* programs) {
  for (const Launch& launch : launches) programs->insert(launch.program);
}

// What random problems of all sizes need on a device.
std::set<ProgramKey> programs_of(const Device& device) {
  test::CaseMaker maker(41);
  std::set<ProgramKey> programs;
  for (int i = 0; i < 6000; ++i) {
    test::Case c = maker.make(static_cast<int>(maker.draw(1, 4)));
    // Channels and sizes of networks, too: what is planned is not computed here.
    if (i % 2 == 0) {
      const int64_t many[] = {1, 3, 8, 16, 21, 32, 64, 100, 128, 256, 512, 1024};
      const int64_t in = many[maker.draw(0, 11)], out = many[maker.draw(0, 11)], size = maker.draw(1, 100);
      const bool depthwise = maker.draw(0, 4) == 0;
      ConvAttributes& a = c.attributes;
      a.group = depthwise ? in : 1;
      const auto set = [](Shape& dims, const std::vector<int64_t>& perm, int64_t axis, int64_t value) {
        dims[perm[axis]] = value;
      };
      set(c.x, a.x_perm, 1, in);
      for (int axis = 0; axis < a.ndims(); ++axis) set(c.x, a.x_perm, 2 + axis, size);
      set(c.w, a.w_perm, 0, a.transposed() ? in : depthwise ? in : out);
      set(c.w, a.w_perm, 1, depthwise ? 1 : a.transposed() ? out : in);
    }
    const DataType dtype = kCudaTypes[i % 3];
    Options options;
    options.tf32 = maker.draw(0, 2) == 0;
    try {
      const ConvProblem p = c.problem(dtype);
      const bool packed = maker.draw(0, 1) == 0;
      const WeightPlan weights = plan_weights(dtype, c.op(), p, device, options);
      collect(weights.launches, &programs);
      collect(plan_run(dtype, c.op(), p, device, options, packed && weights.packed_bytes > 0, c.bias).launches,
              &programs);
    } catch (const Error&) {
      continue;  // refused sizes
    }
  }
  return programs;
}

// The first of each source, and `count` others, which differ from device to device.
std::vector<ProgramKey> chosen(const std::set<ProgramKey>& programs, size_t count, int seed) {
  std::vector<ProgramKey> first, others;
  for (const ProgramKey& program : programs) {
    (first.empty() || first.back().source != program.source ? first : others).push_back(program);
  }
  std::shuffle(others.begin(), others.end(), std::mt19937_64(static_cast<uint64_t>(seed)));
  others.resize(std::min(others.size(), count));
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

void check(const Device& device) {
  const Nvrtc* const nvrtc = compiler();
  if (nvrtc == nullptr) return;
  const std::set<ProgramKey> programs = programs_of(device);
  EXPECT(programs.size() > 100, programs.size());
  const char* const more = std::getenv("ORTCONV_CUDA_TEST_CASES");
  const size_t others = more != nullptr ? static_cast<size_t>(std::atoi(more)) : 15;
  size_t compiled = 0;
  for (const ProgramKey& program : chosen(programs, others, device.sm)) {
    try {
      const Target target = nvrtc->target_for(device.sm);
      EXPECT(!target.intermediate, target.option);
      compiled += !nvrtc->compile(program, source_of(program), target).empty();
    } catch (const DeviceError& error) {
      std::string options;
      for (const std::string& option : program.options) options += ' ' + option;
      EXPECT(false, program.source, options, ": ", error.what());
    }
  }
  std::printf("     %zu of %zu programs for %d.%d\n", compiled, programs.size(), device.sm / 10, device.sm % 10);
}

TEST(compute_capability_7_5) { check(kDevices[0]); }
TEST(compute_capability_8_0) { check(kDevices[1]); }
TEST(compute_capability_8_6) { check(kDevices[2]); }
TEST(compute_capability_9_0) { check(kDevices[3]); }
TEST(compute_capability_10_0) { check(kDevices[4]); }
TEST(compute_capability_12_0) { check(kDevices[5]); }

}  // namespace
}  // namespace ortconv::cuda
