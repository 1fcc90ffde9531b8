#include "ops/quantized_convolution.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/math.h"
#include "ops/choice_log.h"

namespace ortconv {
namespace {

using kernels::IntegerTransposedOperands;

// What computes problems that neither of the others can.
constexpr const char* kIntegerDirect = "integer_direct";

// Nanoseconds of the units of work, on one thread, as measured with AVX2. Those of other kernels follow from what a dot
// product of theirs takes.
constexpr double kArranged = 0.35, kRow = 20, kOutput = 1;
constexpr double kPortable = 4;  // times as long
constexpr double kDirect = 0.5;  // of a product

// Of a dot product of vectors: of bytes in one instruction, of bytes in pairs, and of 16-bit integers.
double dot_nanoseconds(const kernels::IntegerConvKernel& kernel) {
  return kernel.saturates ? 0.36 : kernel.takes_bytes() ? 0.2 : 0.26;
}

// Nanoseconds that floats take in addition: to widen an element of src, and to finish one of dst.
constexpr double kWidened = 0.12, kFinished = 0.4;

int64_t src_count(const ConvProblem& p) { return p.mb * p.ic * product_of(p.src_size, p.ndims); }
int64_t dst_count(const ConvProblem& p) { return p.mb * p.oc * product_of(p.dst_size, p.ndims); }

double products(const ConvProblem& p) {
  return static_cast<double>(src_count(p)) * static_cast<double>(p.oc / p.g * product_of(p.ker, p.ndims));
}

size_t float_bytes(int64_t count) { return align64(static_cast<size_t>(count) * sizeof(float)); }

// The largest sum of magnitudes of weights whose products are added for an output. A product is at most 255 times as
// large.
int64_t largest_sum(const ConvProblem& p, const kernels::IntegerConvFilter& filter) {
  const int64_t inputs = p.ic / p.g, outputs = p.oc / p.g, taps = product_of(p.ker, p.ndims);
  // Taps of one phase alone reach an output; those of phases are told apart by their remainders.
  std::vector<uint64_t> phase_of(taps);  // where they do not fit, taps of several phases count as one
  for (int64_t t = 0; t < taps; ++t) {
    int64_t rest = t;
    for (int i = p.ndims; i-- > 0; rest /= p.ker[i]) {
      const auto period = static_cast<uint64_t>(std::min(p.stride[i], p.ker[i] * p.dilation[i]));
      phase_of[t] = phase_of[t] * period + static_cast<uint64_t>(rest % p.ker[i] * p.dilation[i] % p.stride[i]);
    }
  }
  std::map<uint64_t, int64_t> sums;
  int64_t largest = 0;
  for (int64_t m = 0; m < p.oc; ++m) {
    sums.clear();
    for (int64_t t = 0; t < taps; ++t) {
      int64_t& sum = sums[phase_of[t]];
      for (int64_t c = m / outputs * inputs; c < (m / outputs + 1) * inputs; ++c) {
        sum += std::abs(filter.w[(c * outputs + m % outputs) * taps + t] - filter.zero(m));
      }
      largest = std::max(largest, sum);
    }
  }
  return largest;
}

// For the kernel that saturates where that pays: it multiplies twice as many numbers at once.
std::optional<kernels::IntegerTransposedWeights> integer_weights(const ConvProblem& problem,
                                                                 const kernels::IntegerConvFilter& filter,
                                                                 const ArchFlags& arch) {
  if (const kernels::IntegerConvKernel* const pairs = kernels::get_saturating_integer_conv_kernel(arch)) {
    auto weights = kernels::IntegerTransposedWeights::make(*pairs, problem, filter);
    if (weights && weights->excess_share() <= kernels::IntegerConvWeights::kMostExcess) return weights;
  }
  return kernels::IntegerTransposedWeights::make(kernels::get_integer_conv_kernel(arch), problem, filter);
}

double integer_nanoseconds(const ConvProblem& p, const kernels::IntegerTransposedLayout& layout,
                           const kernels::IntegerTransposedWeights& weights, const ArchFlags& arch) {
  const kernels::IntegerTransposedWork work = integer_transposed_work(p, layout, weights);
  const double slower = arch.avx2_fma || arch.neon ? 1 : kPortable;
  return slower * (work.dots * dot_nanoseconds(weights.kernel()) + work.arranged * kArranged + work.rows * kRow +
                   static_cast<double>(dst_count(p)) * kOutput);
}

}  // namespace

QuantizedConvolution::QuantizedConvolution(const ConvProblem& problem, const kernels::IntegerConvFilter& filter,
                                           const ArchFlags& arch, ConvOptions options)
    : filter_(filter),
      arch_(arch),
      options_(std::move(options)),
      result_(kernels::get_integer_result_kernel(arch)),
      integers_(integer_weights(problem, filter, arch)) {
  constexpr int64_t kExact = int64_t{1} << 24, kLargest = 255;
  if (problem.ic == 0 || problem.oc == 0 || largest_sum(problem, filter) > kExact / kLargest) return;
  const int64_t count = problem.ic * (problem.oc / problem.g) * product_of(problem.ker, problem.ndims);
  float_weights_.resize(count);
  // One zero point for all.
  result_.widen(filter.w.data, filter.w.is_signed, filter.zero(0), count, float_weights_.data());
  ConvProblem plain = problem;
  plain.activation = Activation();
  floats_ = std::make_unique<Convolution>(DataType::kFloat, kernels::Op::kConvTranspose, plain, float_weights_.data(),
                                          Weights::kConstant, arch);
}

std::shared_ptr<const QuantizedChoice> QuantizedConvolution::choose(const ConvProblem& problem) const {
  const auto choice = std::make_shared<QuantizedChoice>();
  choice->problem = problem;
  choice->is_empty = dst_count(problem) == 0;
  if (choice->is_empty) return choice;
  std::vector<LoggedEstimate> estimates;
  if (integers_) choice->integers = kernels::IntegerTransposedLayout::make(problem, *integers_);
  if (choice->integers) {
    estimates.push_back({kIntegerPhases, integer_nanoseconds(problem, *choice->integers, *integers_, arch_), {}});
  }
  if (floats_ != nullptr) {
    ConvProblem plain = problem;
    plain.activation = Activation();
    choice->floats = floats_->choose(plain, float_weights_.data());
    const double more =
        static_cast<double>(src_count(problem)) * kWidened + static_cast<double>(dst_count(problem)) * kFinished;
    estimates.push_back({kDequantized, floats_->nanoseconds(*choice->floats) + more, {}});
  }
  choice->nanoseconds = kDirect * products(problem);
  if (!estimates.empty()) choice->nanoseconds = estimates[0].nanoseconds;
  const bool both = choice->integers && choice->floats != nullptr;
  if (both && options_.implementation != kIntegerPhases &&
      (options_.implementation == kDequantized || estimates[1].nanoseconds < estimates[0].nanoseconds)) {
    choice->integers.reset();
    choice->nanoseconds = estimates[1].nanoseconds;
  } else if (both) {
    choice->floats.reset();
  }
  if (!options_.choices.empty()) {
    const char* const name = choice->integers            ? kIntegerPhases
                             : choice->floats != nullptr ? kDequantized
                                                         : kIntegerDirect;
    log_choice(options_.choices, options_.node, problem, name, estimates);
  }
  return choice;
}

size_t QuantizedConvolution::scratch_bytes(const QuantizedChoice& choice, int threads) const {
  if (choice.integers) {
    return integer_transposed_scratch_bytes(choice.problem, *choice.integers, *integers_, threads);
  }
  if (choice.floats == nullptr) return 0;
  return float_bytes(src_count(choice.problem)) + float_bytes(dst_count(choice.problem)) +
         floats_->scratch_bytes(*choice.floats, threads);
}

void QuantizedConvolution::run(const QuantizedChoice& choice, const IntegerTransposedOperands& operands, void* scratch,
                               const Parallel& parallel) const {
  if (choice.is_empty) return;
  if (choice.integers) {
    integer_transposed(choice.problem, *choice.integers, *integers_, result_, operands, scratch, parallel);
  } else if (choice.floats != nullptr) {
    run_floats(choice, operands, scratch, parallel);
  } else {
    integer_transposed_direct(choice.problem, filter_, result_, operands, parallel);
  }
}

// Sums of integers below 2^24 are exact in any order.
void QuantizedConvolution::run_floats(const QuantizedChoice& choice, const IntegerTransposedOperands& operands,
                                      void* scratch, const Parallel& parallel) const {
  const ConvProblem& p = choice.problem;
  const int64_t src = product_of(p.src_size, p.ndims), dst = product_of(p.dst_size, p.ndims);
  auto* const x = static_cast<unsigned char*>(scratch);
  auto* const sums = x + float_bytes(src_count(p));
  const auto floats = [](unsigned char* memory, int64_t first) { return reinterpret_cast<float*>(memory) + first; };
  for_each(parallel, p.mb * p.ic, [&](int64_t i) {
    result_.widen(operands.x.data + i * src, operands.x.is_signed, operands.x_zero, src, floats(x, i * src));
  });
  floats_->run(*choice.floats, x, float_weights_.data(), nullptr, nullptr, sums, sums + float_bytes(dst_count(p)),
               parallel);
  const int64_t bytes = operands.type == kernels::ResultType::kFloat ? sizeof(float) : 1;
  for_each(parallel, p.mb * p.oc, [&](int64_t i) {
    kernels::IntegerResultArgs args = integer_result_args(p, operands, i % p.oc);
    const float* const row = floats(sums, i * dst);
    args.sums = &row, args.phases = 1, args.count = dst;
    args.y = static_cast<unsigned char*>(operands.y) + i * dst * bytes;
    if (operands.residual != nullptr) args.residual = static_cast<const unsigned char*>(operands.residual) + i * dst;
    result_(operands.type, args);
  });
}

}  // namespace ortconv
