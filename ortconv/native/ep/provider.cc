#include "ep/provider.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ep/compiled.h"
#include "ep/group.h"
#include "ep/report.h"
#include "ort/abi/boundary.h"
#include "ort/operators.h"

namespace ortconv::ep {
namespace {

constexpr const char* kCpuProvider = "CPUExecutionProvider";
constexpr const char* kContextEntry = "ep.context_enable";
// Options of the provider, as entries of the session's configuration.
constexpr const char* kFuseEntry = "ep.ortconvexecutionprovider.fuse";
constexpr const char* kClaimAllEntry = "ep.ortconvexecutionprovider.claim_all";
constexpr const char* kReportEntry = "ep.ortconvexecutionprovider.report";

Session session_of(const OrtApi* api, const OrtSessionOptions* options) {
  Session session{api, Settings::read(api, options)};
  for (auto& op : operators(api, session.settings)) {
    if (std::strcmp(op->GetExecutionProviderType(op.get()), kCpuProvider) == 0) session.operators.push_back(op);
  }
  // Files of ONNX Runtime's own kind hold nodes, and no fused ones.
  session.fuses = flag_entry(api, options, kFuseEntry, true) && !flag_entry(api, options, kContextEntry, false);
  session.chooses = !flag_entry(api, options, kClaimAllEntry, false);
  session.report = config_entry(api, options, kReportEntry);
  return session;
}

// The kernel of a single node.
struct SingleKernel : OrtKernelImpl {
  std::unique_ptr<const Kernel> kernel;

  explicit SingleKernel(const Kernel* made) : OrtKernelImpl(), kernel(made) {
    version = abi::kEpVersion;
    Compute = [](OrtKernelImpl* self, OrtKernelContext* context) {
      const Kernel& each = *static_cast<SingleKernel*>(self)->kernel;
      return guarded(each.api(), each.subject(), [&] { each.compute(context); });
    };
    Release = [](OrtKernelImpl* self) { delete static_cast<SingleKernel*>(self); };
  }
};

// That of nodes that were fused. Runs share it, as it does not change.
struct FusedKernel : OrtNodeComputeInfo {
  std::unique_ptr<const Kernel> kernel;

  explicit FusedKernel(std::unique_ptr<const Kernel> made) : OrtNodeComputeInfo(), kernel(std::move(made)) {
    version = abi::kEpVersion;
    CreateState = [](OrtNodeComputeInfo*, OrtNodeComputeContext*, void** state) -> OrtStatus* {
      *state = nullptr;
      return nullptr;
    };
    Compute = [](OrtNodeComputeInfo* self, void*, OrtKernelContext* context) {
      const Kernel& each = *static_cast<FusedKernel*>(self)->kernel;
      return guarded(each.api(), each.subject(), [&] { each.compute(context); });
    };
    ReleaseState = [](OrtNodeComputeInfo*, void*) {};
  }
};

struct Provider : OrtEp {
  Session session;
  const bool fuses_once;

  Provider(const OrtApi* api, const OrtSessionOptions* options, bool once);
};

// What ONNX Runtime hands back when it creates a kernel.
struct Creation {
  const OrtApi* api;
  const Claim* claim;
};

OrtStatus* create_single(void* state, const OrtKernelInfo* info, OrtKernelImpl** out) {
  const auto& [api, claim] = *static_cast<const Creation*>(state);
  const OrtEp* provider = nullptr;
  if (OrtStatus* status = abi::KernelInfoGetEp::call(api, info, &provider)) return status;
  void* kernel = nullptr;
  const Session& session = static_cast<const Provider*>(provider)->session;
  if (OrtStatus* status = claim->create(*claim, session, info, &kernel)) return status;
  return guarded(api, claim->op_type, [&] {
    std::unique_ptr<const Kernel> made(static_cast<const Kernel*>(kernel));
    *out = new SingleKernel(made.get());
    made.release();
  });
}

void add_kernel(const OrtApi* api, OrtKernelRegistry* registry, const Claim& claim) {
  const auto release_builder = [api](OrtKernelDefBuilder* each) { abi::ReleaseKernelDefBuilder::call(api, each); };
  OrtKernelDefBuilder* raw = nullptr;
  invoke<abi::CreateKernelDefBuilder>(api, &raw);
  const std::unique_ptr<OrtKernelDefBuilder, decltype(release_builder)> builder(raw, release_builder);
  invoke<abi::SetOperatorType>(api, raw, claim.op_type.c_str());
  invoke<abi::SetDomain>(api, raw, claim.domain.c_str());
  invoke<abi::SetSinceVersion>(api, raw, claim.first, claim.last);
  invoke<abi::SetExecutionProvider>(api, raw, kProviderName);
  if (claim.type_name != nullptr) {
    std::vector<const OrtDataType*> types(claim.types.size());
    for (size_t i = 0; i < types.size(); ++i) {
      invoke<abi::GetTensorDataType>(api, static_cast<int>(claim.types[i]), &types[i]);
    }
    invoke<abi::AddTypeConstraint>(api, raw, claim.type_name, types.data(), types.size());
  }
  const auto release = [api](OrtKernelDef* each) { abi::ReleaseKernelDef::call(api, each); };
  OrtKernelDef* raw_def = nullptr;
  invoke<abi::BuildKernelDef>(api, raw, &raw_def);
  const std::unique_ptr<OrtKernelDef, decltype(release)> def(raw_def, release);
  invoke<abi::KernelRegistryAddKernel>(api, registry, static_cast<const OrtKernelDef*>(raw_def), &create_single,
                                       static_cast<void*>(new Creation{api, &claim}));
}

// Made on first use and never freed: sessions may still be closing while the process exits.
const OrtKernelRegistry* registry_of(const OrtApi* api) {
  static std::mutex& mutex = *new std::mutex;
  static auto& registries = *new std::map<const OrtApi*, OrtKernelRegistry*>;
  const std::lock_guard<std::mutex> lock(mutex);
  OrtKernelRegistry*& registry = registries[api];
  if (registry == nullptr) {
    invoke<abi::CreateKernelRegistry>(api, &registry);
    for (const Claim& claim : claims()) add_kernel(api, registry, claim);
  }
  return registry;
}

// The layer of integers that a node is; none where it is one of floats, with the reason if its data are dequantized.
std::optional<IntegerLayer> find_integers(const Session& session, const Node& node, const std::set<size_t>& taken,
                                          const ChosenConvs& chosen, Outcome* outcome) {
  try {
    std::optional<IntegerLayer> layer = read_integers(node, taken, session.chooses ? &chosen : nullptr);
    if (!layer) return layer;
    const auto known = chosen.known.find(node.id());
    *outcome = {layer->others, layer->kept, {}, known != chosen.known.end() ? known->second : estimates_of(*layer)};
    return layer;
  } catch (const Error& reason) {
    outcome->kept.push_back("DequantizeLinear " + node.input(0).name() +
                            ": the layer is computed in floats: " + reason.what());
    return std::nullopt;
  }
}

// Decides about a node, with its neighbours if they can be fused; false where nothing is to be said of it. Throws Error
// where it stays as it is.
bool decide(const Session& session, const Claim& claim, const Node& node, const std::set<size_t>& taken,
            const ChosenConvs& chosen, bool trusts_sizes, Outcome* outcome) {
  if (session.fuses && is_integer_candidate(node) && find_integers(session, node, taken, chosen, outcome)) return true;
  const Decision decision = claim.require(session, node);
  if (!decision.is_looked_at) return false;
  outcome->estimates = decision.estimates;
  if (session.fuses && !decision.is_alone && node.is("ConvTranspose")) {
    Group group = read_group(node);
    if (!trusts_sizes) group.is_exact.assign(group.ndims(), false);
    fuse_neighbours(&group, taken);
    outcome->kept.insert(outcome->kept.end(), group.kept.begin(), group.kept.end());
    outcome->fused = group.others;
  }
  if (session.chooses) require_faster(outcome->estimates, outcome->fused.size());
  return true;
}

// Claims nodes as one, or a single one by its kernel.
void claim_nodes(const OrtApi* api, OrtEpGraphSupportInfo* info, const std::vector<Node>& nodes) {
  if (nodes.size() > 1) {
    std::vector<const OrtNode*> all;
    for (const Node& each : nodes) all.push_back(each.get());
    const OrtNodeFusionOptions options{abi::kEpVersion, true};
    invoke<abi::AddNodesToFuse>(api, info, all.data(), all.size(), &options);
    return;
  }
  const Node& node = nodes.front();
  const OrtKernelDef* found = nullptr;
  invoke<abi::LookUpKernel>(api, info, node.get(), &found);
  if (found == nullptr) fail("ONNX Runtime finds no kernel for its types and version ", node.since_version());
  invoke<abi::AddSingleNode>(api, info, node.get());
}

// Whether sizes that are stated can be relied on.
bool are_sizes_right(const std::vector<Node>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [](const Node& node) {
    if (!node.is("ConvTranspose")) return true;
    try {
      return is_stated_rightly(read_group(node));
    } catch (const Error&) {
      return false;  // it is one that is not understood
    }
  });
}

// Whether nodes were fused.
bool claim_graph(const Session& session, const OrtGraph* graph, OrtEpGraphSupportInfo* info) {
  bool has_fused = false;
  std::set<size_t> taken;
  const std::vector<Node> nodes = nodes_of(session.api, graph);
  const bool trusts_sizes = are_sizes_right(nodes);
  ChosenConvs chosen;
  if (session.fuses && session.chooses) chosen = choose_quantized_convs(nodes);
  for (const Node& node : nodes) {
    const Claim* const claim = find_claim(node);
    if (claim == nullptr || !node.provider().empty() || taken.count(node.id()) != 0) continue;
    Outcome outcome;
    try {
      if (!decide(session, *claim, node, taken, chosen, trusts_sizes, &outcome)) continue;
      std::vector<Node> claimed = outcome.fused;
      claimed.push_back(node);
      claim_nodes(session.api, info, claimed);
      for (const Node& each : claimed) taken.insert(each.id());
      has_fused = has_fused || claimed.size() > 1;
    } catch (const Error& reason) {
      outcome.fused.clear();
      outcome.reason = reason.what();
    }
    report(session.report, node, outcome);
  }
  return has_fused;
}

std::unique_ptr<const Kernel> compile(const Session& session, const OrtGraph* graph, const OrtNode* fused) {
  const std::vector<Node> nodes = nodes_of(session.api, graph);
  const auto found = std::find_if(nodes.begin(), nodes.end(), is_integer_candidate);
  if (found == nodes.end()) fail("there is no Conv and no ConvTranspose among nodes that were fused.");
  const auto require_all = [&](const std::vector<Node>& others) {
    if (others.size() + 1 == nodes.size()) return;
    fail(found->op_type(), " '", found->name(), "': ", nodes.size() - 1, " neighbours were fused, ", others.size(),
         " of them are understood.");
  };
  if (const auto layer = read_integers(*found)) {
    require_all(layer->others);
    return make_integer_kernel(session, *layer, Node(session.api, fused));
  }
  Group group = read_group(*found);
  fuse_neighbours(&group);
  require_all(group.others);
  return make_group_kernel(session, group, Node(session.api, fused));
}

Provider::Provider(const OrtApi* api, const OrtSessionOptions* options, bool once)
    : OrtEp(), session(session_of(api, options)), fuses_once(once) {
  version = abi::kEpVersion;
  GetName = [](const OrtEp*) { return kProviderName; };
  GetCapability = [](OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* info) {
    auto* const provider = static_cast<Provider*>(self);
    Session& own = provider->session;
    return guarded(own.api, kProviderName, [&] {
      if (claim_graph(own, graph, info) && provider->fuses_once) own.fuses = false;
    });
  };
  Compile = [](OrtEp* self, const OrtGraph** graphs, const OrtNode** fused, size_t count, OrtNodeComputeInfo** infos,
               OrtNode**) {
    const Session& own = static_cast<Provider*>(self)->session;
    return guarded(own.api, kProviderName, [&] {
      for (size_t i = 0; i < count; ++i) infos[i] = new FusedKernel(compile(own, graphs[i], fused[i]));
    });
  };
  ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** infos, size_t count) {
    for (size_t i = 0; i < count; ++i) delete static_cast<FusedKernel*>(infos[i]);
  };
  GetKernelRegistry = [](OrtEp* self, const OrtKernelRegistry** registry) {
    const OrtApi* const own = static_cast<Provider*>(self)->session.api;
    return guarded(own, kProviderName, [&] { *registry = registry_of(own); });
  };
  IsConcurrentRunSupported = [](OrtEp*, bool* is_supported) -> OrtStatus* {
    *is_supported = true;
    return nullptr;
  };
}

}  // namespace

OrtEp* make_provider(const OrtApi* api, const OrtSessionOptions* options, bool fuses_once) {
  return new Provider(api, options, fuses_once);
}

void release_provider(OrtEp* provider) { delete static_cast<Provider*>(provider); }

}  // namespace ortconv::ep
