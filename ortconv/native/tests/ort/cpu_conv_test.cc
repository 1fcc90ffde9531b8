// The convolutions of the CPU provider as ONNX Runtime meets them: one kernel, whose runs have many sizes, also at the
// same time.
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ort/convolution/op.h"
#include "testing/cases.h"
#include "testing/fake_ort/fake_ort.h"
#include "testing/test.h"

namespace ortconv {
namespace {

using test::Case;
using test::CaseMaker;

constexpr int kFloat = static_cast<int>(DataType::kFloat);

OrtValue host_value(const Shape& dims, std::vector<float>& data) {
  return {kFloat, dims, test::host_memory(), data.data()};
}

// What one run has, and what it must give.
struct Run {
  Case sizes;
  std::vector<float> x, w, b, r, y;
  Shape y_dims;
};

// Which inputs are constant.
struct Constants {
  bool w, b, output_shape;
};

bool adds(const Case& c) { return c.attributes.op == ConvOp::kConvTransposeAdd; }

// A kernel for all runs of a node.
class Node {
 public:
  // The constant inputs are those of the first run.
  Node(Run& first, const Constants& constants) : bias_(first.sizes.bias) {
    OrtKernelInfo info;
    info.attributes = first.sizes.attributes;
    info.memory = test::host_memory();
    values_of(first, values_);
    const bool is_constant[] = {false, constants.w, constants.output_shape, false, constants.b};
    for (int i = 0; i < kInputs; ++i) {
      if (!has(first.sizes, i)) continue;
      OrtKernelInfo::Input input;
      if (is_constant[i]) input.constant = &values_[i];
      info.inputs.push_back(input);
    }
    kernel_ = make_conv_kernel({test::fake_ort(), &info, first.sizes.attributes.op, DataType::kFloat, {}, "node"});
  }

  // Returns what is wrong.
  std::string check(Run& run) const {
    OrtValue values[kInputs];
    values_of(run, values);
    OrtKernelContext context;
    context.memory = test::host_memory();
    for (int i = 0; i < kInputs; ++i) {
      if (has(run.sizes, i)) context.inputs.push_back(&values[i]);
    }
    const std::string refusal = test::refusal([&] { kernel_->compute(&context); });
    if (!refusal.empty()) return refusal;
    if (context.y_bytes != run.y.size() * sizeof(float)) return test::describe(context.y_bytes, " bytes");
    return std::memcmp(context.host_y.get(), run.y.data(), context.y_bytes) == 0 ? "" : "other numbers";
  }

 private:
  static constexpr int kInputs = 5;  // x, w, output_shape or residual, and b: each op has its own

  bool has(const Case& c, int input) const {
    return input < 2 || (input == 2 && c.output_shape) || (input == 3 && adds(c)) || (input == 4 && bias_);
  }

  static void values_of(Run& run, OrtValue* values) {
    Case& c = run.sizes;
    values[0] = host_value(c.x, run.x);
    values[1] = host_value(c.w, run.w);
    if (c.output_shape) {
      values[2] = {static_cast<int>(DataType::kInt64),
                   {static_cast<int64_t>(c.output_shape->size())},
                   test::host_memory(),
                   c.output_shape->data()};
    }
    values[3] = host_value(run.y_dims, run.r);
    values[4] = host_value({static_cast<int64_t>(run.b.size())}, run.b);
  }

  const bool bias_;
  OrtValue values_[kInputs];
  std::unique_ptr<Kernel> kernel_;
};

void fill(CaseMaker& maker, Run* run) {
  const Case& c = run->sizes;
  const ConvProblem p = c.problem(DataType::kFloat);
  if (run->w.empty()) run->w = maker.values<float>(test::count_of(c.w));
  if (run->b.empty()) run->b = maker.values<float>(p.oc);
  run->x = maker.values<float>(test::count_of(c.x));
  run->r = maker.values<float>(test::count_of_dst(p));
  run->y_dims = output_dims(c.attributes, p);
  run->y = test::oracle(p, c.op(), run->x.data(), run->w.data(), c.bias ? run->b.data() : nullptr,
                        adds(c) ? run->r.data() : nullptr);
}

// Runs of one node. Their sizes differ in what is not constant; some are large enough for threads.
std::vector<Run> runs_of_a_node(CaseMaker& maker, ConvOp op, int ndims, const Constants& constants) {
  Run first;
  Case& c = first.sizes;
  c.attributes = test::attributes(op, ndims);
  c.attributes.strides.assign(ndims, 2);
  c.attributes.x_perm.back() = 1, c.attributes.x_perm[1] = ndims + 1;  // channels come last
  c.x.assign(ndims + 2, 3);
  c.w = op == ConvOp::kConv ? Shape{7, 3} : Shape{3, 7};
  c.w.resize(ndims + 2, 2);
  c.bias = maker.draw(0, 3) != 0;
  if (op == ConvOp::kConvTransposeToShape) c.output_shape = Shape(ndims, 5);
  fill(maker, &first);
  std::vector<Run> runs = {first};
  while (runs.size() < 12) {
    Run run = first;
    run.sizes.x[0] = maker.draw(1, 3);
    for (int i = 1; i <= ndims; ++i) run.sizes.x[i] = maker.draw(2, runs.size() == 11 ? 16 : 5);
    if (!constants.w) {
      run.sizes.w.back() = maker.draw(1, 2);
      run.w.clear();
    }
    if (run.sizes.output_shape && !constants.output_shape) run.sizes.output_shape->back() = maker.draw(1, 9);
    if (!constants.b) run.b.clear();
    fill(maker, &run);
    runs.push_back(run);
  }
  return runs;
}

template <class Fn>
void for_nodes(Fn fn) {
  CaseMaker maker(31);
  for (const ConvOp op :
       {ConvOp::kConvTranspose, ConvOp::kConvTransposeToShape, ConvOp::kConv, ConvOp::kConvTransposeAdd}) {
    for (int ndims = 1; ndims <= 3; ++ndims) {
      for (const Constants& constants : {Constants{true, true, true}, Constants{true, false, false}, Constants{}}) {
        std::vector<Run> runs = runs_of_a_node(maker, op, ndims, constants);
        const Node node(runs.front(), constants);
        fn(maker, node, runs);
      }
    }
  }
}

TEST(sizes_change_between_runs) {
  for_nodes([](CaseMaker& maker, const Node& node, std::vector<Run>& runs) {
    for (int i = 0; i < 40; ++i) {
      Run& run = runs[maker.draw(0, static_cast<int64_t>(runs.size()) - 1)];
      const std::string problem = node.check(run);
      EXPECT(problem.empty(), run.sizes.describe(), ": ", problem);
    }
  });
  const test::Allocations left = test::allocations();
  EXPECT(left.blocks == 0 && left.allocators == 0, left.blocks, " blocks, ", left.allocators, " allocators");
}

TEST(sizes_are_refused_each_time) {
  CaseMaker maker(32);
  std::vector<Run> runs = runs_of_a_node(maker, ConvOp::kConvTransposeToShape, 2, {true, false, false});
  Run& good = runs.front();
  good.sizes.bias = true;
  const Node node(good, {true, false, false});
  fill(maker, &good);
  Run bad = good;
  bad.sizes.x.back() = 4;
  for (int i = 0; i < 3; ++i) {
    EXPECT(node.check(good).empty(), node.check(good));
    const std::string refusal = node.check(bad);
    EXPECT(refusal == "input X has shape [3, 3, 3, 4], that is 4 channels on axis 3; allowed: 3, from W and group=1.",
           refusal);
  }
}

TEST(sizes_change_between_concurrent_runs) {
  for_nodes([](CaseMaker& maker, const Node& node, std::vector<Run>& runs) {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, seed = maker.draw(0, 1 << 30)] {
        CaseMaker own(static_cast<uint64_t>(seed));
        for (int i = 0; i < 20; ++i) {
          Run& run = runs[own.draw(0, static_cast<int64_t>(runs.size()) - 1)];
          wrong += !node.check(run).empty();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT(wrong == 0, runs.front().sizes.describe(), ": ", wrong.load(), " are wrong");
  });
}

}  // namespace
}  // namespace ortconv
