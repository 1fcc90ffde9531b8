#include "ops/convolution.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/activation.h"
#include "base/buffer.h"
#include "base/math.h"
#include "base/parallel.h"
#include "ops/choice_log.h"
#include "ops/epilogue.h"
#include "ops/plain_axes.h"
#include "ops/reference.h"
#include "ops/tuning.h"

namespace ortconv {

using implementations::Candidate;
using implementations::Chooser;
using implementations::Node;

namespace {

bool is_floating_point(DataType dtype) {
  return dtype == DataType::kFloat || dtype == DataType::kFloat16 || dtype == DataType::kBfloat16 ||
         dtype == DataType::kDouble;
}

bool is_empty(const int64_t* sizes, int count) { return std::find(sizes, sizes + count, 0) != sizes + count; }

int64_t dst_count(const ConvProblem& p) { return p.mb * p.oc * product_of(p.dst_size, p.ndims); }

bool output_is_empty(const ConvProblem& p) { return p.mb == 0 || p.oc == 0 || is_empty(p.dst_size, p.ndims); }

// Whether two problems differ in sizes, padding and memory strides of the data alone.
bool have_same_kernel(const ConvProblem& a, const ConvProblem& b) {
  const auto same = [&](const int64_t (&of_a)[kMaxSpatial], const int64_t (&of_b)[kMaxSpatial]) {
    return std::equal(of_a, of_a + a.ndims, of_b);
  };
  return a.ndims == b.ndims && a.wei_0 == b.wei_0 && a.wei_1 == b.wei_1 && same(a.ker, b.ker) &&
         same(a.stride, b.stride) && same(a.dilation, b.dilation) && same(a.wei_x, b.wei_x);
}

// No output is reached by any tap: the result is the bias alone.
bool nothing_to_sum(kernels::Op op, const ConvProblem& p) {
  if (p.ic == 0 || is_empty(p.src_size, p.ndims)) return true;
  if (op == kernels::Op::kConv) return false;
  for (int i = 0; i < p.ndims; ++i) {
    const int64_t full = (p.src_size[i] - 1) * p.stride[i] + (p.ker[i] - 1) * p.dilation[i] + 1;
    if (p.pad[i] >= full) return true;
  }
  return false;
}

}  // namespace

Convolution::Convolution(DataType dtype, kernels::Op op, const ConvProblem& problem, const void* wei, Weights lifetime,
                         const ArchFlags& arch, ConvOptions options)
    : dtype_(dtype),
      op_(op),
      arch_(arch),
      is_constant_(lifetime == Weights::kConstant),
      options_(std::move(options)),
      node_(problem) {
  if (problem.ic == 0 || problem.oc == 0) return;
  if (is_floating_point(dtype)) {
    is_finite_ = !is_constant_ || kernels::all_finite(op, problem, dtype, wei);
    chooser_ = std::make_unique<Chooser>(
        Node{dtype, op, problem, is_constant_ ? wei : nullptr, arch, options_.is_exact}, options_.implementation);
  } else if (is_constant_) {
    const size_t doubles = reference::packed_bytes(dtype, problem) / sizeof(double) + 1;
    packed_.reset(new double[doubles]);
    reference::pack_weights(dtype, op, problem, wei, packed_.get(), serial());
  }
}

// The implementations for a problem, which may have been simplified, and its weights.
const Chooser& Convolution::chooser(const ConvChoice& choice) const {
  return choice.simplified_by == nullptr ? *chooser_ : *choice.simplified_by->chooser;
}
const void* Convolution::weights(const ConvChoice& choice, const void* wei) const {
  const bool copied = choice.simplified_by != nullptr && choice.simplified_by->weights != nullptr;
  return copied ? choice.simplified_by->weights.get() : wei;
}

// Makes the same problem with fewer axes or taps, and returns the node that computes it. Null if there is no such
// problem, or if there are as many such nodes as may be kept.
const SimplifiedNode* Convolution::simplify(const ConvProblem& problem, const void* wei,
                                            ConvProblem* simplified) const {
  constexpr size_t kMost = 4;  // as each may have weights of its own
  const ConvProblem plain = without_plain_axes(problem);
  std::optional<SimplifiedProblem> fewer;
  if (op_ == kernels::Op::kConvTranspose) fewer = ortconv::simplified(plain, is_constant_);
  *simplified = fewer ? without_plain_axes(fewer->problem) : plain;
  if (!fewer && plain.ndims == problem.ndims) return nullptr;
  const Crop crop = fewer ? fewer->crop : Crop();
  const std::lock_guard lock(simplifying_);
  for (const auto& node : simplified_) {
    if (node->crop == crop && have_same_kernel(node->problem, *simplified)) return node.get();
  }
  if (simplified_.size() == kMost) return nullptr;
  auto node = std::make_unique<SimplifiedNode>();
  node->crop = crop;
  node->problem = *simplified;
  if (fewer && fewer->copies) {
    node->weights.reset(new char[cropped_bytes(dtype_, plain, crop)]);
    crop_weights(dtype_, plain, crop, wei, node->weights.get());
  }
  const void* weights = node->weights == nullptr ? wei : node->weights.get();
  node->chooser = std::make_unique<Chooser>(
      Node{dtype_, op_, *simplified, is_constant_ ? weights : nullptr, arch_, options_.is_exact},
      options_.implementation);
  return simplified_.emplace_back(std::move(node)).get();
}

std::shared_ptr<const ConvChoice> Convolution::choose(const ConvProblem& problem, const void* wei) const {
  const auto choice = std::make_shared<ConvChoice>();
  choice->problem = choice->simplified = problem;
  choice->is_empty = output_is_empty(problem);
  choice->sums = !choice->is_empty && !nothing_to_sum(op_, problem);
  if (!choice->sums || chooser_ == nullptr) return choice;
  choice->simplified_by = simplify(problem, wei, &choice->simplified);
  if (choice->simplified_by == nullptr) choice->simplified = problem;
  choice->may_improve = !options_.tuning.empty() && is_finite_;
  const auto chosen = [&](bool any_weights) {
    const Candidate& candidate = chooser(*choice).choose(choice->simplified, {any_weights, false});
    candidate.implementation->pack(weights(*choice, wei));
    if (!choice->may_improve) log(*choice, candidate, any_weights);
    return &candidate;
  };
  if (is_finite_) choice->finite = chosen(false);
  if (!is_finite_ || !is_constant_) choice->any = chosen(true);
  return choice;
}

double Convolution::nanoseconds(const ConvProblem& problem, const void* wei) const {
  if (output_is_empty(problem) || nothing_to_sum(op_, problem) || chooser_ == nullptr) return 0;
  ConvProblem simplified = problem;
  const SimplifiedNode* node = simplify(problem, wei, &simplified);
  const Chooser& chooser = node == nullptr ? *chooser_ : *node->chooser;
  double least = HUGE_VAL;
  for (const auto& each : chooser.estimates(node == nullptr ? problem : simplified, {!is_finite_, false})) {
    least = std::min(least, each.nanoseconds);
  }
  return least;
}

void Convolution::log(const ConvChoice& choice, const Candidate& chosen, bool any_weights) const {
  if (options_.choices.empty()) return;
  std::vector<LoggedEstimate> estimates;
  for (const implementations::Estimate& each : chooser(choice).estimates(choice.simplified, {any_weights, false})) {
    estimates.push_back({each.candidate->entry->name, each.nanoseconds, each.work});
  }
  log_choice(options_.choices, options_.node, choice.problem, chosen.entry->name, estimates);
}

double Convolution::nanoseconds(const ConvChoice& choice) const {
  return choice.finite == nullptr ? 0 : chooser(choice).nanoseconds(*choice.finite, choice.simplified);
}

bool Convolution::is_small(const ConvChoice& choice) const {
  constexpr double kSmall = 10000;  // nanoseconds
  const double estimated = nanoseconds(choice);
  return estimated > 0 ? estimated < kSmall : ortconv::is_small(op_, choice.problem);
}

size_t Convolution::scratch_bytes(const ConvChoice& choice, int threads) const {
  if (!choice.sums) return 0;
  if (chooser_ == nullptr) return packed_ != nullptr ? 0 : reference::packed_bytes(dtype_, choice.problem);
  size_t bytes = 0;
  for (const Candidate* each : {choice.finite, choice.any}) {
    if (each != nullptr) bytes = std::max(bytes, each->implementation->scratch_bytes(choice.simplified, threads));
  }
  return bytes;
}

void Convolution::run(const ConvChoice& choice, const void* src, const void* wei, const void* bias,
                      const void* residual, void* dst, void* scratch, const Parallel& parallel) const {
  if (choice.is_empty) return;
  const implementations::Tensors tensors{src, weights(choice, wei), bias, dst, scratch};
  if (residual == nullptr) {
    compute(choice, choice.simplified, tensors, parallel);
    return;
  }
  // A pass of its own, from end to end: dst is computed in small tiles here and there, and to read the residual tile by
  // tile, as each is written, takes longer, even from the registers.
  ConvProblem plain = choice.simplified;
  plain.activation = Activation();
  compute(choice, plain, tensors, parallel);
  add_residual(kernels::get_epilogue_kernel(arch_), dtype_, choice.problem.activation, residual, dst,
               dst_count(choice.problem), parallel);
}

std::shared_ptr<const ConvChoice> Convolution::measure(const ConvChoice& choice, const void* src, const void* wei,
                                                       const void* bias, void* dst, const Parallel& parallel) const {
  constexpr double kMostTimes = 3;  // the shortest estimate; what takes longer is not tried
  constexpr int kTurns = 5;
  Tuning& tuning = Tuning::of_file(options_.tuning);
  const std::string key = Tuning::key(op_, dtype_, choice.simplified, is_constant_, parallel.threads, arch_);
  const implementations::Values values{false, false};
  const auto seconds_of = [&](const implementations::Implementation& implementation) {
    implementation.pack(weights(choice, wei));
    const Buffer scratch(implementation.scratch_bytes(choice.simplified, parallel.threads));
    const implementations::Tensors tensors{src, weights(choice, wei), bias, dst, scratch.as<void>()};
    const auto begin = std::chrono::steady_clock::now();
    const bool done = implementation.run(choice.simplified, tensors, parallel);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return done ? seconds : HUGE_VAL;
  };
  const Candidate* fastest = chooser(choice).find(tuning.find(key), choice.simplified, values);
  if (fastest == nullptr) {
    const std::vector<implementations::Estimate> all = chooser(choice).estimates(choice.simplified, values);
    double least = HUGE_VAL;
    for (const implementations::Estimate& each : all) least = std::min(least, each.nanoseconds);
    std::vector<double> seconds(all.size(), HUGE_VAL);
    for (int turn = 0; turn <= kTurns; ++turn) {
      for (size_t i = 0; i < all.size(); ++i) {
        if (all[i].nanoseconds > kMostTimes * least) continue;
        const double taken = seconds_of(*all[i].candidate->implementation);
        if (turn > 0) seconds[i] = std::min(seconds[i], taken);  // the first one packs weights
      }
    }
    fastest = all[std::min_element(seconds.begin(), seconds.end()) - seconds.begin()].candidate;
    tuning.add(key, fastest->entry->name);
  }
  fastest->implementation->pack(weights(choice, wei));
  log(choice, *fastest, false);
  const auto better = std::make_shared<ConvChoice>(choice);
  better->finite = fastest;
  better->may_improve = false;
  return better;
}

void Convolution::run_chosen(const ConvChoice& choice, const ConvProblem& problem,
                             const implementations::Tensors& tensors, const Parallel& parallel) const {
  // Only those that need finite weights have them looked at, in each run.
  const bool finite = is_constant_
                          ? is_finite_
                          : choice.finite->entry->any_weights || kernels::all_finite(op_, node_, dtype_, tensors.wei);
  const Candidate& chosen = finite ? *choice.finite : *choice.any;
  if (chosen.implementation->run(problem, tensors, parallel)) return;
  // A src of infinities, NaN or huge numbers: rare enough to choose anew and to have its scratch allocated.
  const implementations::Implementation& other = *chooser(choice).choose(problem, {!finite, true}).implementation;
  other.pack(tensors.wei);
  const Buffer more(other.scratch_bytes(problem, parallel.threads));
  other.run(problem, {tensors.src, tensors.wei, tensors.bias, tensors.dst, more.as<void>()}, parallel);
}

void Convolution::compute(const ConvChoice& choice, const ConvProblem& problem, const implementations::Tensors& t,
                          const Parallel& parallel) const {
  if (choice.sums && chooser_ != nullptr) {
    run_chosen(choice, problem, t, parallel);
    return;
  }
  const void* packed = choice.sums ? packed_.get() : nullptr;
  if (choice.sums && packed == nullptr) {
    reference::pack_weights(dtype_, op_, problem, t.wei, t.scratch, parallel);
    packed = t.scratch;
  }
  reference::run(dtype_, op_, problem, t.src, packed, t.bias, t.dst, parallel);
  activate(dtype_, problem.activation, t.dst, dst_count(problem), parallel);
}

bool is_small(kernels::Op op, const ConvProblem& p) {
  constexpr double kSmall = 32768;  // multiplications and outputs: some microseconds on one core
  // In floating point, since the true number may exceed int64.
  double outputs = static_cast<double>(p.mb) * static_cast<double>(p.oc);
  double multiplications = outputs * static_cast<double>(p.ic / p.g);
  for (int i = 0; i < p.ndims; ++i) {
    outputs *= static_cast<double>(p.dst_size[i]);
    const int64_t positions = op == kernels::Op::kConvTranspose ? p.src_size[i] : p.dst_size[i];
    multiplications *= static_cast<double>(positions) * static_cast<double>(p.ker[i]);
  }
  return multiplications + outputs < kSmall;
}

}  // namespace ortconv
