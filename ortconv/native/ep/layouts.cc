#include "ep/layouts.h"

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

// Operators that ONNX Runtime computes in the layout of their data.
constexpr const char* kKeepLayout[] = {
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

bool keeps_layout(const Node& node) {
  return std::any_of(std::begin(kKeepLayout), std::end(kKeepLayout), [&](const char* name) { return node.is(name); });
}

// The Convs from which the data of one come, and those that read its result, through nodes that keep the layout.
struct AdjacentConvs {
  std::vector<size_t> before, after;
  bool ends = false;  // the result is read by something else, too
};

class Finder {
 public:
  explicit Finder(const std::vector<QuantizedConv>& convs) {
    for (size_t i = 0; i < convs.size(); ++i) index_[convs[i].node.id()] = i;
  }

  AdjacentConvs find(const QuantizedConv& conv) const {
    AdjacentConvs found;
    std::set<size_t> seen;
    look_before(conv.x, &found, &seen);
    seen.clear();
    look_after(conv.y, &found, &seen);
    return found;
  }

 private:
  void look_before(const Value& value, AdjacentConvs* found, std::set<size_t>* seen) const {
    const std::optional<Node> node = value ? value.producer() : std::nullopt;
    if (!node || seen->size() == kMostNodes || !seen->insert(node->id()).second) return;
    const auto conv = index_.find(node->id());
    if (conv != index_.end()) {
      found->before.push_back(conv->second);
    } else if (keeps_layout(*node)) {
      for (const Value& each : node->inputs()) look_before(each, found, seen);
    }
  }

  void look_after(const Value& value, AdjacentConvs* found, std::set<size_t>* seen) const {
    const std::vector<Node> readers = value.consumers();
    found->ends = found->ends || value.is_graph_output() || readers.empty();
    for (const Node& node : readers) {
      if (seen->count(node.id()) != 0) continue;
      const auto conv = index_.find(node.id());
      if (conv != index_.end()) {
        found->after.push_back(conv->second);
      } else if (!keeps_layout(node) || seen->size() == kMostNodes) {
        found->ends = true;
        continue;
      }
      seen->insert(node.id());
      if (conv != index_.end()) continue;
      for (const Value& each : node.outputs()) {
        if (each) look_after(each, found, seen);
      }
    }
  }

  std::map<size_t, size_t> index_;  // of a Conv, by its id
};

class Layouts {
 public:
  // With all of them ours, or none.
  Layouts(const std::vector<QuantizedConv>& convs, const std::vector<AdjacentConvs>& adjacent, bool is_ours)
      : convs_(convs), adjacent_(adjacent), is_ours_(convs.size(), is_ours) {}

  // Moves Convs to the faster side, in turns until none moves, but in few.
  void settle() {
    constexpr int kTurns = 8;
    for (int turn = 0; turn < kTurns; ++turn) {
      bool has_moved = false;
      for (size_t i = 0; i < convs_.size(); ++i) {
        const Estimates times = times_of(i);
        const bool is_ours = times.ours < times.onnxruntime;
        has_moved = has_moved || is_ours != is_ours_[i];
        is_ours_[i] = is_ours;
      }
      if (!has_moved) return;
    }
  }

  // Of all. What is between two of them counts for both, so half of it.
  double nanoseconds() const {
    double sum = 0;
    for (size_t i = 0; i < convs_.size(); ++i) {
      const bool is_single = adjacent_[i].before.empty() && adjacent_[i].after.empty();
      const Estimates times = times_of(i);
      const double alone = is_ours_[i] ? convs_[i].ours : convs_[i].onnxruntime;
      const double around = (is_ours_[i] ? times.ours : times.onnxruntime) - alone;
      sum += alone + (is_single ? around : around / 2);
    }
    return sum;
  }

  // Their ids.
  std::set<size_t> ours() const {
    std::set<size_t> ids;
    for (size_t i = 0; i < convs_.size(); ++i) {
      if (is_ours_[i]) ids.insert(convs_[i].node.id());
    }
    return ids;
  }

 private:
  bool is_channels_last(size_t i) const { return !is_ours_[i] && !convs_[i].is_transposed; }

  // With what each side costs around it: transposes of the data and the result, and floats.
  Estimates times_of(size_t i) const {
    const QuantizedConv& conv = convs_[i];
    const AdjacentConvs& around = adjacent_[i];
    const auto any = [](const std::vector<size_t>& all, auto is) { return std::any_of(all.begin(), all.end(), is); };
    const auto is_last = [&](size_t each) { return is_channels_last(each); };
    const auto is_first = [&](size_t each) { return !is_channels_last(each); };
    const bool comes_last = any(around.before, is_last), goes_last = any(around.after, is_last);
    const bool goes_first = around.ends || any(around.after, is_first);
    const double x = transpose_nanoseconds(implementations::src_count(conv.problem));
    const double y = transpose_nanoseconds(implementations::dst_count(conv.problem));
    Estimates times{conv.ours, conv.onnxruntime};
    if (comes_last) times.ours += x;
    if (goes_last) times.ours += y;
    if (comes_last == conv.is_transposed) times.onnxruntime += x;
    if (conv.is_transposed ? goes_last : goes_first) times.onnxruntime += y;
    add_floats(i, conv.x_is_int8, around.before, &times);
    add_floats(i, conv.y_is_int8, around.after, &times);
    return times;
  }

  // What one side of an edge of int8 makes floats of on the other.
  void add_floats(size_t i, bool is_int8, const std::vector<size_t>& adjacent, Estimates* times) const {
    constexpr double kMore = 2.5;  // of the time in integers
    if (!is_int8) return;
    const auto more = [&](size_t each) { return convs_[each].is_transposed ? 0 : kMore * convs_[each].onnxruntime; };
    bool has_ours = false;
    for (const size_t each : adjacent) {
      has_ours = has_ours || is_ours_[each];
      if (!is_ours_[each]) times->ours += more(each);
    }
    if (has_ours) times->onnxruntime += more(i);
  }

  const std::vector<QuantizedConv>& convs_;
  const std::vector<AdjacentConvs>& adjacent_;
  std::vector<bool> is_ours_;
};

}  // namespace

std::set<size_t> faster_convs(const std::vector<QuantizedConv>& convs) {
  if (convs.empty()) return {};
  const Finder finder(convs);
  std::vector<AdjacentConvs> adjacent;
  for (const QuantizedConv& conv : convs) adjacent.push_back(finder.find(conv));
  const Layouts theirs(convs, adjacent, false);
  Layouts none = theirs, all(convs, adjacent, true);
  none.settle(), all.settle();
  const Layouts& best = none.nanoseconds() <= all.nanoseconds() ? none : all;
  // By as much as any node that is claimed has to be faster.
  return is_faster({best.nanoseconds(), theirs.nanoseconds()}, 0) ? best.ours() : std::set<size_t>();
}

}  // namespace ortconv::ep
