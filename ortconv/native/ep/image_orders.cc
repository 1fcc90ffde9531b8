#include "ep/image_orders.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include "ep/cost.h"
#include "ops/implementations/sizes.h"

namespace ortconv::ep {
namespace {

constexpr size_t kMostNodes = 100;  // that are looked at between a Conv and others

// Operators that ONNX Runtime computes in the order in which their data lie.
constexpr const char* kKeepOrder[] = {
    "Add",
    "AveragePool",
    "Clip",
    "Concat",
    "DequantizeLinear",
    "GlobalAveragePool",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "MaxPool",
    "Mul",
    "QuantizeLinear",
    "Relu",
    "Resize",
    "Sigmoid",
    "Split",
};

bool keeps_order(const Node& node) {
  return std::any_of(std::begin(kKeepOrder), std::end(kKeepOrder), [&](const char* name) { return node.is(name); });
}

// The Convs from which the data of one come, and those that read its result, through nodes that keep the order.
struct Neighbours {
  std::vector<size_t> before, after;
  bool ends = false;  // the result is read by something else, too
};

class Finder {
 public:
  explicit Finder(const std::vector<QuantizedConv>& convs) {
    for (size_t i = 0; i < convs.size(); ++i) index_[convs[i].node.id()] = i;
  }

  Neighbours find(const QuantizedConv& conv) const {
    Neighbours found;
    std::set<size_t> seen;
    look_before(conv.x, &found, &seen);
    seen.clear();
    look_after(conv.y, &found, &seen);
    return found;
  }

 private:
  void look_before(const Value& value, Neighbours* found, std::set<size_t>* seen) const {
    const std::optional<Node> node = value ? value.producer() : std::nullopt;
    if (!node || seen->size() == kMostNodes || !seen->insert(node->id()).second) return;
    const auto conv = index_.find(node->id());
    if (conv != index_.end()) {
      found->before.push_back(conv->second);
    } else if (keeps_order(*node)) {
      for (const Value& each : node->inputs()) look_before(each, found, seen);
    }
  }

  void look_after(const Value& value, Neighbours* found, std::set<size_t>* seen) const {
    const std::vector<Node> readers = value.consumers();
    found->ends = found->ends || value.is_graph_output() || readers.empty();
    for (const Node& node : readers) {
      if (seen->count(node.id()) != 0) continue;
      const auto conv = index_.find(node.id());
      if (conv != index_.end()) {
        found->after.push_back(conv->second);
      } else if (!keeps_order(node) || seen->size() == kMostNodes) {
        found->ends = true;
        continue;
      }
      seen->insert(node.id());
      if (conv != index_.end()) continue;
      for (const Value& each : node.outputs()) look_after(each, found, seen);
    }
  }

  std::map<size_t, size_t> index_;  // of a Conv, by its id
};

class Orders {
 public:
  // With all of them ours, or none.
  Orders(const std::vector<QuantizedConv>& convs, const std::vector<Neighbours>& neighbours, bool is_ours)
      : convs_(convs), neighbours_(neighbours), is_ours_(convs.size(), is_ours) {}

  // Moves Convs to the faster side until none moves, or for some turns. Returns the nanoseconds of all.
  double settle() {
    constexpr int kTurns = 8;
    for (int turn = 0; turn < kTurns; ++turn) {
      bool has_moved = false;
      for (size_t i = 0; i < convs_.size(); ++i) {
        const Estimates times = times_of(i);
        const bool is_ours = times.ours < times.onnxruntime;
        has_moved = has_moved || is_ours != is_ours_[i];
        is_ours_[i] = is_ours;
      }
      if (!has_moved) break;
    }
    double sum = 0;
    for (size_t i = 0; i < convs_.size(); ++i) {
      const Estimates times = times_of(i);
      sum += is_ours_[i] ? times.ours : times.onnxruntime;
    }
    return sum;
  }

  // Those that are ours, and faster by as much as any claimed node has to be.
  std::set<size_t> ours() const {
    std::set<size_t> ids;
    for (size_t i = 0; i < convs_.size(); ++i) {
      if (is_ours_[i] && is_faster(times_of(i), 0)) ids.insert(convs_[i].node.id());
    }
    return ids;
  }

 private:
  // With the transposes of its data and its result that each side needs.
  Estimates times_of(size_t i) const {
    const QuantizedConv& conv = convs_[i];
    const Neighbours& around = neighbours_[i];
    const auto is_ours = [&](size_t each) { return bool{is_ours_[each]}; };
    const auto any_is_theirs = [&](const std::vector<size_t>& all) {
      return !std::all_of(all.begin(), all.end(), is_ours);
    };
    Estimates times{conv.ours, conv.onnxruntime};
    const double x = transpose_nanoseconds(implementations::src_count(conv.problem));
    const double y = transpose_nanoseconds(implementations::dst_count(conv.problem));
    (any_is_theirs(around.before) ? times.ours : times.onnxruntime) += x;
    if (any_is_theirs(around.after)) times.ours += y;
    if (around.ends || std::any_of(around.after.begin(), around.after.end(), is_ours)) times.onnxruntime += y;
    return times;
  }

  const std::vector<QuantizedConv>& convs_;
  const std::vector<Neighbours>& neighbours_;
  std::vector<bool> is_ours_;
};

}  // namespace

std::set<size_t> faster_convs(const std::vector<QuantizedConv>& convs) {
  if (convs.empty()) return {};
  const Finder finder(convs);
  std::vector<Neighbours> neighbours;
  for (const QuantizedConv& conv : convs) neighbours.push_back(finder.find(conv));
  Orders none(convs, neighbours, false), all(convs, neighbours, true);
  return none.settle() <= all.settle() ? none.ours() : all.ours();
}

}  // namespace ortconv::ep
