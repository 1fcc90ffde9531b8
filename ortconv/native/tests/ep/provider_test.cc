// The execution provider as ONNX Runtime meets it: what it claims of a graph, and the kernels it gives.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "testing/fake_ort/fake_graph.h"
#include "testing/test.h"

extern "C" OrtStatus* CreateEpFactories(const char*, const OrtApiBase*, const OrtLogger*, OrtEpFactory**, size_t,
                                        size_t*);
extern "C" OrtStatus* ReleaseEpFactory(OrtEpFactory*);

namespace ortconv {
namespace {

constexpr int kFloat = 1, kUint8 = 2, kInt8 = 3;
constexpr int64_t kSize = 4, kInputs = 3, kOutputs = 2, kTaps = 3, kStride = 2, kResult = (kSize - 1) * kStride + kTaps;

std::string text_of(OrtStatus* status) {
  if (status == nullptr) return "";
  const std::string text = status->message;
  delete status;
  return text;
}

template <class T>
OrtOpAttr attribute(int type, const std::vector<T>& values) {
  return {type, std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))};
}

std::vector<float> numbers(int64_t count, int64_t seed) {
  std::vector<float> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(static_cast<float>((i * 7 + seed) % 11 - 5));
  return all;
}

// y = Relu(ConvTranspose(x, w)), of rows.
struct Graph {
  std::vector<float> x_data = numbers(kInputs * kSize, 1), w_data = numbers(kInputs * kOutputs * kTaps, 2);
  OrtValue x_tensor{kFloat, {1, kInputs, kSize}, test::host_memory(), x_data.data()};
  OrtValue w_tensor{kFloat, {kInputs, kOutputs, kTaps}, test::host_memory(), w_data.data()};
  OrtValueInfo x{"x", {{kFloat, {1, kInputs, kSize}}}, nullptr, false, nullptr, {}},
      w{"w", {{kFloat, {kInputs, kOutputs, kTaps}}}, nullptr, false, nullptr, {}},
      c{"c", {{kFloat, {1, kOutputs, kResult}}}, nullptr, false, nullptr, {}},
      y{"y", {{kFloat, {1, kOutputs, kResult}}}, nullptr, false, nullptr, {}};
  OrtNode conv{0, "conv", "ConvTranspose", 11, {&x, &w}, {&c}, {}, ""};
  OrtNode relu{1, "relu", "Relu", 14, {&c}, {&y}, {}, ""};
  OrtGraph graph{{&conv, &relu}};

  Graph() {
    conv.attributes["strides"] = attribute<int64_t>(2, {kStride});
    w.constant = &w_tensor;
    x.consumers = w.consumers = {&conv};
    c.producer = &conv, c.consumers = {&relu};
    y.producer = &relu, y.is_graph_output = true;
  }

  float expected(int64_t oc, int64_t at) const {
    float sum = 0;
    for (int64_t ic = 0; ic < kInputs; ++ic) {
      for (int64_t k = 0; k < kTaps; ++k) {
        if (at < k || (at - k) % kStride != 0 || (at - k) / kStride >= kSize) continue;
        sum += x_data[ic * kSize + (at - k) / kStride] * w_data[(ic * kOutputs + oc) * kTaps + k];
      }
    }
    return sum;
  }
};

// A provider with options, made by the functions that the library exports.
class Provider {
 public:
  explicit Provider(const OrtSessionOptions& options) {
    size_t count = 0;
    EXPECT(CreateEpFactories("ortconv", test::fake_ort_base(), nullptr, &factory_, 1, &count) == nullptr, "factory");
    EXPECT(count == 1, count);
    problem = text_of(factory_->CreateEp(factory_, nullptr, nullptr, 0, &options, nullptr, &ep));
  }
  ~Provider() {
    if (ep != nullptr) factory_->ReleaseEp(factory_, ep);
    ReleaseEpFactory(factory_);
  }

  OrtEpGraphSupportInfo claims(const OrtGraph& graph) {
    OrtEpGraphSupportInfo info{};
    EXPECT(ep->GetKernelRegistry(ep, &info.registry) == nullptr, "registry");
    EXPECT(text_of(ep->GetCapability(ep, &graph, &info)).empty(), "capability");
    return info;
  }

  OrtEpFactory* factory() { return factory_; }

  std::string problem;
  OrtEp* ep = nullptr;

 private:
  OrtEpFactory* factory_ = nullptr;
};

OrtSessionOptions all_claimed() { return {{{"ep.ortconvexecutionprovider.claim_all", "1"}}, {}}; }

// Runs fn(context) on x, and compares with what is expected, clipped at 0 if it is.
template <class Fn>
void check_run(const Graph& graph, bool is_clipped, Fn fn) {
  OrtKernelContext context;
  context.memory = test::host_memory();
  context.inputs = {&graph.x_tensor, &graph.w_tensor};
  const std::string problem = text_of(fn(&context));
  EXPECT(problem.empty(), problem);
  if (!problem.empty()) return;
  EXPECT((context.y->dims == Shape{1, kOutputs, kResult}), to_string(context.y->dims));
  const auto* const y = static_cast<const float*>(context.y->data);
  for (int64_t oc = 0; oc < kOutputs; ++oc) {
    for (int64_t at = 0; at < kResult; ++at) {
      const float sum = graph.expected(oc, at), right = is_clipped ? std::fmax(sum, 0.0f) : sum;
      EXPECT(y[oc * kResult + at] == right, oc, " ", at, ": ", y[oc * kResult + at], ", not ", right);
    }
  }
}

TEST(only_cpus_are_supported) {
  Provider provider({});
  const OrtHardwareDevice devices[] = {{1}, {0}, {2}};
  const OrtHardwareDevice* const all[] = {&devices[0], &devices[1], &devices[2]};
  OrtEpDevice* found[3] = {};
  size_t count = 0;
  OrtEpFactory* const factory = provider.factory();
  EXPECT(factory->GetSupportedDevices(factory, all, 3, found, 3, &count) == nullptr, "devices");
  EXPECT(count == 1 && found[0]->device == &devices[1], count);
  const std::unique_ptr<OrtEpDevice> owned(found[0]);
  EXPECT(std::string(factory->GetName(factory)) == "OrtconvExecutionProvider", factory->GetName(factory));
}

TEST(old_versions_are_refused) {
  const OrtApiBase old = {[](uint32_t version) { return version >= 24 ? nullptr : test::fake_ort(); },
                          [] { return "1.23.2"; }};
  OrtEpFactory* factory = nullptr;
  size_t count = 0;
  const std::string problem = text_of(CreateEpFactories("ortconv", &old, nullptr, &factory, 1, &count));
  EXPECT(problem == "OrtconvExecutionProvider: ONNX Runtime 1.23.2 is too old; allowed: 1.24 or newer.", problem);
}

TEST(options_are_checked) {
  Provider provider({{{"ep.ortconvexecutionprovider.fuse", "2"}}, {}});
  EXPECT(provider.ep == nullptr, "made");
  EXPECT(provider.problem.find("fuse = '2' is not supported; allowed: 0, 1.") != std::string::npos, provider.problem);
}

TEST(neighbours_are_fused_and_compiled) {
  Graph graph;
  Provider provider(all_claimed());
  const OrtEpGraphSupportInfo found = provider.claims(graph.graph);
  EXPECT(found.single.empty() && found.fused.size() == 1 && found.fused[0].size() == 2, found.fused.size());
  const OrtNode fused{9, "fused", "fused", 1, {&graph.x}, {&graph.y}, {}, ""};
  const OrtGraph* graphs[] = {&graph.graph};
  const OrtNode* nodes[] = {&fused};
  OrtNodeComputeInfo* info = nullptr;
  const std::string problem = text_of(provider.ep->Compile(provider.ep, graphs, nodes, 1, &info, nullptr));
  EXPECT(problem.empty(), problem);
  std::memset(graph.w_data.data(), 0, graph.w_data.size() * sizeof(float));  // the kernel has its own
  Graph fresh;
  check_run(fresh, true, [&](OrtKernelContext* context) {
    context->inputs = {&fresh.x_tensor};
    return info->Compute(info, nullptr, context);
  });
  provider.ep->ReleaseNodeComputeInfos(provider.ep, &info, 1);
}

// q = QuantizeLinear(ConvTranspose(DequantizeLinear(x), DequantizeLinear(w))), of rows.
struct IntegerGraph {
  // A constant, or a value that a node makes.
  struct Tensor {
    std::vector<unsigned char> bytes;
    OrtValue value;
    OrtValueInfo info;

    template <class T>
    Tensor(const char* name, int type, Shape dims, const std::vector<T>& data)
        : bytes(reinterpret_cast<const unsigned char*>(data.data()),
                reinterpret_cast<const unsigned char*>(data.data() + data.size())),
          value{type, dims, test::host_memory(), bytes.data()},
          info{name, {{type, dims}}, &value, false, nullptr, {}} {}
  };

  Tensor x{"x", kUint8, {1, 1, 3}, std::vector<uint8_t>{7, 3, 255}};
  Tensor x_scale{"x_scale", kFloat, {}, std::vector<float>{0.5f}};
  Tensor x_zero{"x_zero", kUint8, {}, std::vector<uint8_t>{3}};
  Tensor w{"w", kInt8, {1, 2, 2}, std::vector<int8_t>{1, -2, 4, 127}};
  Tensor w_scale{"w_scale", kFloat, {2}, std::vector<float>{2, 4}};
  Tensor y_scale{"y_scale", kFloat, {}, std::vector<float>{2}};
  Tensor y_zero{"y_zero", kUint8, {}, std::vector<uint8_t>{10}};
  OrtValueInfo f{"f", {{kFloat, {1, 1, 3}}}, nullptr, false, nullptr, {}},
      v{"v", {{kFloat, {1, 2, 2}}}, nullptr, false, nullptr, {}},
      c{"c", {{kFloat, {1, 2, 4}}}, nullptr, false, nullptr, {}},
      q{"q", {{kUint8, {1, 2, 4}}}, nullptr, true, nullptr, {}};
  OrtNode of_x{0, "of_x", "DequantizeLinear", 13, {&x.info, &x_scale.info, &x_zero.info}, {&f}, {}, ""};
  OrtNode of_w{1, "of_w", "DequantizeLinear", 13, {&w.info, &w_scale.info}, {&v}, {}, ""};
  OrtNode conv{2, "conv", "ConvTranspose", 11, {&f, &v}, {&c}, {}, ""};
  OrtNode round{3, "round", "QuantizeLinear", 13, {&c, &y_scale.info, &y_zero.info}, {&q}, {}, ""};
  OrtGraph graph{{&of_x, &of_w, &conv, &round}};

  IntegerGraph() {
    x.info.constant = nullptr;
    f.producer = &of_x, f.consumers = {&conv};
    v.producer = &of_w, v.consumers = {&conv};
    c.producer = &conv, c.consumers = {&round};
    q.producer = &round;
  }
};

TEST(integers_are_fused_and_compiled) {
  IntegerGraph graph;
  Provider provider(all_claimed());
  const OrtEpGraphSupportInfo found = provider.claims(graph.graph);
  EXPECT(found.single.empty() && found.fused.size() == 1 && found.fused[0].size() == 4, found.fused.size());
  const OrtNode fused{9, "fused", "fused", 1, {&graph.x.info}, {&graph.q}, {}, ""};
  const OrtGraph* graphs[] = {&graph.graph};
  const OrtNode* nodes[] = {&fused};
  OrtNodeComputeInfo* info = nullptr;
  const std::string problem = text_of(provider.ep->Compile(provider.ep, graphs, nodes, 1, &info, nullptr));
  EXPECT(problem.empty(), problem);
  for (IntegerGraph::Tensor* each : {&graph.w, &graph.w_scale, &graph.x_scale, &graph.x_zero, &graph.y_scale}) {
    std::fill(each->bytes.begin(), each->bytes.end(), static_cast<unsigned char>(0));  // the kernel has its own
  }
  OrtKernelContext context;
  context.memory = test::host_memory();
  context.inputs = {&graph.x.value};
  const std::string run = text_of(info->Compute(info, nullptr, &context));
  EXPECT(run.empty(), run);
  EXPECT((context.y->dims == Shape{1, 2, 4}), to_string(context.y->dims));
  // Sums {4, -8, 252, -504} and {16, 508, 1008, 32004}; halves are rounded to even.
  const uint8_t expected[] = {12, 6, 136, 0, 26, 255, 255, 255};
  const auto* const y = static_cast<const uint8_t*>(context.y->data);
  for (int i = 0; i < 8; ++i) EXPECT(y[i] == expected[i], i, ": ", int{y[i]}, ", not ", int{expected[i]});
  provider.ep->ReleaseNodeComputeInfos(provider.ep, &info, 1);
}

TEST(integers_that_others_read_are_left) {
  IntegerGraph graph;
  graph.f.consumers.push_back(&graph.round);
  Provider provider(all_claimed());
  const OrtEpGraphSupportInfo found = provider.claims(graph.graph);
  EXPECT(found.fused.empty() && found.single == std::vector<const OrtNode*>{&graph.conv}, found.fused.size());
}

TEST(a_node_by_itself_has_a_kernel) {
  Graph graph;
  graph.c.is_graph_output = true;  // so that nothing may be fused
  Provider provider(all_claimed());
  const OrtEpGraphSupportInfo found = provider.claims(graph.graph);
  EXPECT(found.fused.empty() && found.single == std::vector<const OrtNode*>{&graph.conv}, found.single.size());
  const OrtKernelRegistry::Entry* const entry = test::find_entry(*found.registry, graph.conv);
  OrtKernelInfo info;
  info.name = "conv";
  info.memory = test::host_memory();
  info.attributes.strides = {kStride};
  info.attributes.dilations = {1};
  info.attributes.pads = {0, 0};
  info.attributes.output_padding = {0};
  info.provider = provider.ep;
  info.inputs = {{OrtTensorTypeAndShapeInfo{kFloat, graph.x_tensor.dims}, nullptr},
                 {OrtTensorTypeAndShapeInfo{kFloat, graph.w_tensor.dims}, &graph.w_tensor}};
  OrtKernelImpl* kernel = nullptr;
  const std::string problem = text_of(entry->create(entry->state, &info, &kernel));
  EXPECT(problem.empty() && kernel->flags == 0, problem);
  check_run(graph, false, [&](OrtKernelContext* context) { return kernel->Compute(kernel, context); });
  kernel->Release(kernel);
}

TEST(nodes_of_others_are_left) {
  Graph graph;
  graph.relu.provider = "AnotherExecutionProvider";
  Provider provider(all_claimed());
  EXPECT(provider.claims(graph.graph).single.size() == 1, "the Relu is another's");
  graph.conv.provider = "AnotherExecutionProvider";
  const OrtEpGraphSupportInfo found = provider.claims(graph.graph);
  EXPECT(found.single.empty() && found.fused.empty(), "both are another's");
}

}  // namespace
}  // namespace ortconv
