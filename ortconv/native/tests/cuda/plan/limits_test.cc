// Plans for devices as they are sold, which need not be carried out: limits, and the list of programs.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cuda/plan/compressed_plan.h"
#include "cuda/plan/describe.h"
#include "kernels/matmul_nbits/codes.h"
#include "testing/cuda/plans.h"

namespace ortconv::cuda {
namespace {

// The shapes of the benchmarks as models have them.
std::vector<Case> benchmark_cases() {
  struct Row {
    int64_t mb, g, ic, oc;
    std::vector<int64_t> src, ker, stride, pad, output_padding, dilation;
  };
#define CASE(name, ...) Row{__VA_ARGS__},
  const Row rows[] = {
#include "testing/bench_shapes.inc"
  };
#undef CASE
  std::vector<Case> cases;
  for (const Row& row : rows) {
    Case c;
    c.attributes = test::attributes(ConvOp::kConvTranspose, static_cast<int>(row.src.size()));
    c.attributes.group = row.g;
    c.attributes.strides = row.stride;
    c.attributes.dilations = row.dilation;
    c.attributes.pads = row.pad;
    c.attributes.pads.insert(c.attributes.pads.end(), row.pad.begin(), row.pad.end());
    c.attributes.output_padding = row.output_padding;
    c.x = {row.mb, row.ic};
    c.x.insert(c.x.end(), row.src.begin(), row.src.end());
    c.w = {row.ic, row.oc / row.g};
    c.w.insert(c.w.end(), row.ker.begin(), row.ker.end());
    cases.push_back(c);
  }
  return cases;
}

// T4, A100, H200, B200 and RTX 5090.
const Device kSoldDevices[] = {
    {75, 40, 64 << 10}, {80, 108, 163 << 10}, {90, 132, 227 << 10}, {100, 148, 227 << 10}, {120, 170, 99 << 10}};

// Problems of any kind, with the channels and sizes of networks.
std::vector<Case> drawn_cases(int count) {
  CaseMaker maker(41);
  std::vector<Case> cases;
  while (static_cast<int>(cases.size()) < count) {
    Case c = maker.make(static_cast<int>(maker.draw(1, 4)));
    ConvAttributes& a = c.attributes;
    const int64_t many[] = {1, 3, 8, 16, 21, 32, 64, 100, 128, 256, 512, 1024};
    const int64_t in = many[maker.draw(0, 11)], out = many[maker.draw(0, 11)], size = maker.draw(1, 100);
    const bool depthwise = maker.draw(0, 4) == 0;
    a.group = depthwise ? in : 1;
    c.x[a.x_perm[1]] = in;
    for (int axis = 0; axis < a.ndims(); ++axis) c.x[a.x_perm[2 + axis]] = size;
    c.w[a.w_perm[0]] = a.transposed() ? in : depthwise ? in : out;
    c.w[a.w_perm[1]] = depthwise ? 1 : a.transposed() ? out : in;
    try {
      c.problem(DataType::kFloat);
    } catch (const Error&) {
      continue;  // refused sizes
    }
    cases.push_back(c);
  }
  return cases;
}

using Programs = std::map<std::string, std::set<int>>;  // and the devices that are asked for them

void collect(const std::vector<Launch>& launches, const Device& device, const std::string& what, Programs* programs) {
  for (const Launch& launch : launches) {
    expect_within_limits(launch, device, what);
    std::string program = launch.program.source;
    for (const std::string& option : launch.program.options) program += ' ' + option;
    (*programs)[program].insert(device.sm);
  }
}

void collect(const Case& c, const Device& device, DataType dtype, bool tf32, Programs* programs) {
  const ConvProblem p = c.problem(dtype);
  Terms terms;
  terms.bias = c.bias;
  terms.residual = c.residual;
  collect(plan_run(dtype, c.op(), p, device, {tf32}, false, terms).launches, device, c.describe(), programs);
}

// Products by matrices of language models, and by one whose blocks are odd.
void collect_products(Programs* programs) {
  constexpr int64_t kMatrices[][3] = {{896, 4864, 128}, {4096, 4096, 32},   {14336, 4096, 4096},
                                      {512, 16384, 64}, {1536, 8960, 8960}, {100, 900, 100}};
  for (const auto& [n, k, block] : kMatrices) {
    for (const int64_t m : {1, 2, 4, 16, 256}) {
      for (const kernels::Code code : {kernels::Code::kU8, kernels::Code::kS4, kernels::Code::kTable}) {
        for (const Device& device : kSoldDevices) {
          for (const DataType dtype : kTypes) {
            const CompressedProblem p{code, m, n, k, block, code != kernels::Code::kTable, true, true};
            collect(plan_compressed(dtype, p, device, {m == 256}).launches, device,
                    test::describe("products ", m, ' ', n, ' ', k), programs);
            if (m == 256) continue;
            CompressedProblem named = p;  // a row for each of 8 experts
            named.has_index = true, named.m *= 8, named.matrices = 128, named.sharing = 8;
            collect(plan_compressed(dtype, named, device, {}).launches, device,
                    test::describe("named products ", m, ' ', n, ' ', k), programs);
          }
        }
      }
    }
  }
}

// Layers of quantised networks for images.
void collect_integers(Programs* programs) {
  struct Row {
    Shape x, w;
    int64_t group, stride, pad;
  };
  const auto collect_rows = [programs](const auto& rows, ConvOp op, const std::vector<Elements>& types) {
    for (const auto& row : rows) {
      Case c;
      const auto ndims = static_cast<int>(row.x.size()) - 2;
      c.attributes = test::attributes(op, ndims);
      c.attributes.group = row.group;
      c.attributes.strides.assign(ndims, row.stride);
      c.attributes.pads.assign(2 * ndims, row.pad);
      c.x = row.x, c.w = row.w;
      const ConvProblem p = c.problem(DataType::kInt8);
      for (const Device& device : kSoldDevices) {
        for (const Elements& elements : types) {
          collect(plan_run(elements, c.op(), p, device, {}, false, {true}).launches, device, c.describe(), programs);
        }
      }
    }
  };
  const DataType u8 = DataType::kUint8, s8 = DataType::kInt8;
  const Row rows[] = {{{1, 3, 224, 224}, {64, 3, 7, 7}, 1, 2, 3},      {{8, 256, 56, 56}, {128, 256, 1, 1}, 1, 1, 0},
                      {{1, 128, 28, 28}, {128, 128, 3, 3}, 1, 1, 1},   {{8, 512, 14, 14}, {512, 512, 3, 3}, 1, 2, 1},
                      {{1, 144, 56, 56}, {144, 1, 3, 3}, 144, 2, 1},   {{8, 384, 14, 14}, {384, 1, 7, 7}, 384, 1, 3},
                      {{1, 672, 1, 1}, {28, 672, 1, 1}, 1, 1, 0},      {{1, 64, 56, 56}, {128, 4, 3, 3}, 16, 1, 1},
                      {{1, 64, 4096}, {80, 64, 7}, 1, 2, 3},           {{1, 48, 8, 28, 28}, {96, 48, 3, 3, 3}, 1, 1, 1},
                      {{1, 48, 4, 28, 28}, {48, 1, 3, 3, 3}, 48, 1, 1}};
  collect_rows(rows, ConvOp::kConv, {{u8, s8}, {s8, s8}, {u8, s8, u8}});
  const Row transposed_rows[] = {
      {{1, 256, 28, 28}, {256, 128, 4, 4}, 1, 2, 1}, {{8, 128, 56, 56}, {128, 64, 2, 2}, 1, 2, 0},
      {{1, 64, 56, 56}, {64, 32, 3, 3}, 1, 2, 1},    {{1, 96, 28, 28}, {96, 1, 4, 4}, 96, 2, 1},
      {{1, 512, 100}, {512, 256, 16}, 1, 8, 4},      {{1, 32, 8, 28, 28}, {32, 16, 3, 3, 3}, 1, 2, 1}};
  collect_rows(transposed_rows, ConvOp::kConvTranspose, {{u8, s8}, {u8, s8, u8}, {s8, s8, s8}});
}

// tests/cuda_sources/programs.txt has a line for every program that the benchmarks' shapes and some problems of other
// kinds ask for, after the devices that do; the Python tests compile them with NVRTC. ORTCONV_CUDA_PROGRAMS=<file>
// writes it anew.
TEST(programs_are_listed) {
  Programs programs;
  for (Case c : benchmark_cases()) {
    for (const bool channels_last : {false, true}) {
      if (channels_last) make_channels_last(&c);
      for (const Device& device : kSoldDevices) {
        for (const DataType dtype : kTypes) {
          for (const bool tf32 : {false, true}) collect(c, device, dtype, tf32, &programs);
        }
      }
    }
  }
  size_t number = 0;
  for (const Case& c : drawn_cases(120)) {
    const Device& device = kSoldDevices[number % std::size(kSoldDevices)];
    collect(c, device, kTypes[number % std::size(kTypes)], number % 2 == 0, &programs);
    ++number;
  }
  collect_products(&programs);
  collect_integers(&programs);
  std::set<std::string> lines;
  for (const auto& [program, sms] : programs) {
    std::string line;
    for (const int sm : sms) line += (line.empty() ? "" : ",") + std::to_string(sm);
    lines.insert(line + ' ' + program);
  }
  if (const char* const path = std::getenv("ORTCONV_CUDA_PROGRAMS")) {
    std::ofstream file(path);
    for (const std::string& line : lines) file << line << '\n';
  }
  std::set<std::string> listed;
  std::ifstream file(ORTCONV_CUDA_PROGRAMS_FILE);
  for (std::string line; std::getline(file, line);) listed.insert(line);
  for (const std::string& line : lines) EXPECT(listed.count(line) == 1, "not listed: ", line);
  for (const std::string& line : listed) EXPECT(lines.count(line) == 1, "listed in vain: ", line);
}

// Sizes at which something overflows, or would: plans keep within the limits of devices and take no long time.
TEST(plans_of_large_problems_are_within_limits) {
  struct Row {
    Shape x, w;
    int64_t group, stride, pad;
  };
  const int64_t big = int64_t{1} << 31;
  const Row rows[] = {
      {{1, 64, 4, big}, {64, 64, 1, 4}, 1, 2, 1},               // positions
      {{70000, 8, 300, 300}, {8, 8, 2, 2}, 1, 2, 0},            // images
      {{1, 1 << 20, 8, 8}, {1 << 20, 1, 3, 3}, 1 << 20, 2, 1},  // groups of one channel
      {{1, 3 << 16, 8, 8}, {3 << 16, 3, 3, 3}, 1 << 16, 2, 1},  // groups of some
      {{2, 1 << 16, 4, 4}, {1 << 16, 1 << 16, 2, 2}, 1, 2, 0},  // channels
      {{1, 4, 2, 2}, {4, 4, 1, 1 << 20}, 1, 1, 0},              // taps
      {{1, 4, 1000, 1000}, {4, 4, 1000, 1000}, 1, 1000, 0},     // strides
      {{1, 4, 2, 1}, {4, 4, 2, 2}, 1, int64_t{1} << 40, 0},
      {{1, 4, big, 3}, {4, 4, 2, 2}, 1, 1, 2000000000},
      {{1, 1, big, 8}, {1, 1, 2, 2}, 1, 1, 0},
      {{1, 2, big, 8}, {2, 1, 2, 2}, 2, 1, 0},
  };
  std::vector<Elements> types(std::begin(kTypes), std::end(kTypes));
  types.emplace_back(DataType::kUint8, DataType::kInt8, DataType::kUint8);
  for (const Row& row : rows) {
    for (Device device : kSoldDevices) {
      for (const Elements& elements : types) {
        Case c;
        c.attributes = test::attributes(ConvOp::kConvTranspose, 2);
        c.attributes.group = row.group;
        c.attributes.strides = {row.stride, row.stride};
        c.attributes.pads = {row.pad, 0, 0, 0};
        c.x = row.x;
        c.w = row.w;
        const ConvProblem p = c.problem(elements.x);
        const Plan plan = plan_run(elements, c.op(), p, device, {}, true, {true});
        EXPECT(!plan.launches.empty(), c.describe());
        for (const Launch& launch : plan.launches) expect_within_limits(launch, device, c.describe());
        for (const Launch& launch : plan_weights(elements, c.op(), p, device, {}).launches) {
          expect_within_limits(launch, device, c.describe());
        }
      }
    }
  }
}

TEST(plans_of_large_convolutions_of_integers_are_within_limits) {
  const int64_t big = int64_t{1} << 31;
  struct Row {
    Shape x, w;
    int64_t group, stride, pad;
  };
  const Row rows[] = {{{1, 64, 4, big}, {64, 64, 1, 4}, 1, 2, 1},
                      {{70000, 8, 300, 300}, {8, 8, 2, 2}, 1, 2, 0},
                      {{1, 1 << 20, 8, 8}, {1 << 20, 1, 3, 3}, 1 << 20, 2, 1},
                      {{2, 1 << 16, 4, 4}, {1 << 16, 1 << 16, 2, 2}, 1, 2, 0},
                      {{1, 4, 3, 1 << 20}, {4, 4, 1, 1 << 20}, 1, 1, 0},
                      {{1, 4, 2, 2}, {4, 4, 2, 2}, 1, 1, 1 << 30},
                      {{1, 4, 2, 2}, {4, 4, 2, 2}, 1, int64_t{1} << 40, int64_t{1} << 40},
                      {{1, 2, big, 8}, {2, 1, 2, 2}, 2, 1, 0}};
  for (const Row& row : rows) {
    for (const Device& device : kSoldDevices) {
      Case c;
      c.attributes = test::attributes(ConvOp::kConv, 2);
      c.attributes.group = row.group;
      c.attributes.strides = {row.stride, row.stride};
      c.attributes.pads = {row.pad, 1, row.pad, 1};
      c.x = row.x, c.w = row.w;
      const ConvProblem p = c.problem(DataType::kInt8);
      const Elements elements(DataType::kUint8, DataType::kInt8);
      const Plan plan = plan_run(elements, c.op(), p, device, {}, true, {true});
      EXPECT(!plan.launches.empty(), c.describe());
      // Of a copy of X, beside the sums of parts, which are few.
      const double copied = 16.0 * 4 * static_cast<double>(test::count_of(c.x) + count_outputs(p)) + (1 << 30);
      EXPECT(static_cast<double>(plan.scratch_bytes) <= copied, c.describe(), ": ", plan.scratch_bytes);
      for (const Launch& launch : plan.launches) expect_within_limits(launch, device, c.describe());
      for (const Launch& launch : plan_weights(elements, c.op(), p, device, {}).launches) {
        expect_within_limits(launch, device, c.describe());
      }
    }
  }
}

TEST(plans_of_large_products_are_within_limits) {
  const int64_t big = int64_t{1} << 33;
  struct Row {
    int64_t m, n, k, block;
  };
  for (const auto& [m, n, k, block] : {Row{1, big, 8, 8}, Row{big, 8, 8, 8}, Row{64, 1 << 16, 1 << 16, 32},
                                       Row{70, 5, big, big}, Row{1 << 20, 1 << 17, 1 << 10, 1}}) {
    for (const Device& device : kSoldDevices) {
      for (const DataType dtype : kTypes) {
        for (const bool aligned : {true, false}) {
          const CompressedProblem p{kernels::Code::kU4, m, n, k, block, true, aligned, aligned};
          const Plan plan = plan_compressed(dtype, p, device, {});
          const std::string what = test::describe("products ", m, ' ', n, ' ', k);
          EXPECT(!plan.launches.empty(), what);
          for (const Launch& launch : plan.launches) expect_within_limits(launch, device, what);
          CompressedProblem named = p;
          named.has_index = true, named.matrices = 1 << 20;
          for (const Launch& launch : plan_compressed(dtype, named, device, {}).launches) {
            expect_within_limits(launch, device, what);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ortconv::cuda
