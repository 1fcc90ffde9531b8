// The interface of a way to compute convolutions, and the list of all of them.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "base/arch.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/problem.h"
#include "kernels/conv/conv.h"
#include "ops/implementations/costs.h"
#include "ops/implementations/work.h"

namespace ortconv::implementations {

// What is known of a node when its kernel is created.
struct Node {
  DataType dtype;  // a floating-point type
  kernels::Op op;
  ConvProblem problem;  // holds at least what weight_problem() sets; there are channels
  const void* wei;      // null: other weights in every run
  ArchFlags arch;
  bool is_exact = false;  // sums of small integers have to be exact: without fractions in between
};

// The data of a run; bias may be null. Scratch is aligned to 64 bytes.
struct Tensors {
  const void *src, *wei, *bias;
  void *dst, *scratch;
};

// One way to compute the runs of a node. Concurrent runs may share it. Neither src nor dst of a problem is empty, and
// the weights of a node that has them are always the same.
class Implementation {
 public:
  Implementation() = default;
  virtual ~Implementation() = default;
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  // The work of a run; none if it cannot compute the run. What this returns does not depend on the number of threads.
  virtual std::optional<Work> work(const ConvProblem& problem) const = 0;
  // Packs constant weights, on the first call. Called before the two below.
  virtual void pack(const void*) const {}
  virtual size_t scratch_bytes(const ConvProblem& problem, int threads) const = 0;
  // Computes dst, activated, in the same way for every number of threads. False if src holds numbers that it cannot
  // compute with: dst is undefined then.
  virtual bool run(const ConvProblem& problem, const Tensors& tensors, const Parallel& parallel) const = 0;
};

// An entry of the list.
struct Entry {
  const char* name;
  Way way;           // whose costs are those of this entry
  bool any_weights;  // also infinities and NaN; else it multiplies weights with zeros around src
  bool any_src;      // run() never returns false
  std::unique_ptr<Implementation> (*make)(const Node& node);  // null if it computes no run of the node
};

// All entries. Of several that are estimated to take the same time, the first one is chosen. The last one computes
// every run.
struct List {
  const Entry *first, *last;
  const Entry* begin() const { return first; }
  const Entry* end() const { return last; }
};
List list();

// What the files of this folder define, one each.
std::unique_ptr<Implementation> make_winograd(const Node& node);
std::unique_ptr<Implementation> make_winograd_separate(const Node& node);
std::unique_ptr<Implementation> make_depth_to_space(const Node& node);
std::unique_ptr<Implementation> make_disjoint_windows(const Node& node);
std::unique_ptr<Implementation> make_sliding_src(const Node& node);
std::unique_ptr<Implementation> make_sliding_weights(const Node& node);
std::unique_ptr<Implementation> make_tapwise(const Node& node);
std::unique_ptr<Implementation> make_channel_lanes(const Node& node);
std::unique_ptr<Implementation> make_depthwise(const Node& node);
std::unique_ptr<Implementation> make_phases(const Node& node);
std::unique_ptr<Implementation> make_gemm_col2im(const Node& node);
std::unique_ptr<Implementation> make_columns(const Node& node);
std::unique_ptr<Implementation> make_im2col(const Node& node);
std::unique_ptr<Implementation> make_col2im(const Node& node);

}  // namespace ortconv::implementations
