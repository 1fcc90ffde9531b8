#include "ep/image_orders.h"

#include <algorithm>
#include <map>
#include <string>

#include "ep/cost.h"
#include "ops/implementations/sizes.h"

namespace ortconv::ep {
namespace {

constexpr int kMostNodes = 12;  // on a path between two Convs

// Whether ONNX Runtime computes a node in the order in which its data lie.
bool keeps_order(const Node& node) {
  static const std::set<std::string>& names = *new std::set<std::string>{"Add",
                                                                         "AveragePool",
                                                                         "Clip",
                                                                         "Concat",
                                                                         "DequantizeLinear",
                                                                         "GlobalAveragePool",
                                                                         "HardSigmoid",
                                                                         "LeakyRelu",
                                                                         "Mul",
                                                                         "MaxPool",
                                                                         "Relu",
                                                                         "QuantizeLinear",
                                                                         "Resize",
                                                                         "Sigmoid",
                                                                         "Split",
                                                                         "HardSwish"};
  return node.domain().empty() && names.count(node.op_type()) != 0;
}

class Orders {
 public:
  // With all of them ours, or none.
  Orders(const std::vector<QuantizedConv>& convs, bool is_ours) : convs_(convs), is_ours_(convs.size(), is_ours) {
    for (size_t i = 0; i < convs.size(); ++i) index_[convs[i].node.id()] = i;
  }

  // Moves Convs to the faster side until none moves, or none that did before. Returns the nanoseconds of all.
  double settle() {
    constexpr int kTurns = 8;
    for (int turn = 0; turn < kTurns; ++turn) {
      bool has_moved = false;
      for (size_t i = 0; i < convs_.size(); ++i) {
        const Times times = times_of(i);
        const bool is_ours = times.ours < times.onnxruntime;
        has_moved = has_moved || is_ours != is_ours_[i];
        is_ours_[i] = is_ours;
      }
      if (!has_moved) break;
    }
    double sum = 0;
    for (size_t i = 0; i < convs_.size(); ++i) {
      const Times times = times_of(i);
      sum += is_ours_[i] ? times.ours : times.onnxruntime;
    }
    return sum;
  }

  // Those that are ours, and faster by as much as any claimed node has to be.
  std::set<size_t> ours() const {
    std::set<size_t> ids;
    for (size_t i = 0; i < convs_.size(); ++i) {
      const Times times = times_of(i);
      if (is_ours_[i] && is_faster({times.ours, times.onnxruntime}, 0)) ids.insert(convs_[i].node.id());
    }
    return ids;
  }

 private:
  struct Times {
    double ours, onnxruntime;
  };

  Times times_of(size_t i) const {
    const QuantizedConv& conv = convs_[i];
    Times times{conv.ours, conv.onnxruntime};
    const double x = transpose_nanoseconds(implementations::src_count(conv.problem));
    const double y = transpose_nanoseconds(implementations::dst_count(conv.problem));
    (is_channels_last(conv.x, kMostNodes) ? times.ours : times.onnxruntime) += x;
    const Readers readers = readers_of(conv.y, kMostNodes);
    if (readers.last) times.ours += y;
    if (readers.first) times.onnxruntime += y;
    return times;
  }

  // Whether a value comes from a QLinearConv, through nodes that keep its order.
  bool is_channels_last(const Value& value, int most) const {
    const std::optional<Node> node = value ? value.producer() : std::nullopt;
    if (!node || most == 0) return false;
    const auto conv = index_.find(node->id());
    if (conv != index_.end()) return !is_ours_[conv->second];
    if (!keeps_order(*node)) return false;
    const std::vector<Value> inputs = node->inputs();
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](const Value& each) { return is_channels_last(each, most - 1); });
  }

  // Whether some of a value's readers take channels last, and whether some take channels first.
  struct Readers {
    bool last = false, first = false;
  };
  Readers readers_of(const Value& value, int most) const {
    Readers found;
    const std::vector<Node> nodes = value.consumers();
    found.first = value.is_graph_output() || nodes.empty() || most == 0;
    for (const Node& node : nodes) {
      const auto conv = index_.find(node.id());
      if (conv != index_.end()) {
        (is_ours_[conv->second] ? found.first : found.last) = true;
      } else if (keeps_order(node) && most > 0) {
        for (const Value& each : node.outputs()) {
          const Readers behind = readers_of(each, most - 1);
          found.last = found.last || behind.last, found.first = found.first || behind.first;
        }
      } else {
        found.first = true;
      }
    }
    return found;
  }

  const std::vector<QuantizedConv>& convs_;
  std::map<size_t, size_t> index_;  // of a Conv, by its id
  std::vector<bool> is_ours_;
};

}  // namespace

std::set<size_t> faster_convs(const std::vector<QuantizedConv>& convs) {
  if (convs.empty()) return {};
  Orders none(convs, false), all(convs, true);
  return none.settle() <= all.settle() ? none.ours() : all.ours();
}

}  // namespace ortconv::ep
