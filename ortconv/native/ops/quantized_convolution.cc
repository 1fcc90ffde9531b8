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

using kernels::IntegerResultOperands;
using kernels::Op;

// Nanoseconds of the units of work, on one thread, as measured with AVX2. Those of other kernels follow from what a dot
// product of theirs takes.
constexpr double kArranged = 0.35, kRow = 20, kItem = 400, kOutput = 0.5, kInterleaved = 0.5;
constexpr double kPortable = 4;  // times as long
// Where tiles store results: of a run and of an output channel, before the weights are known, and of units of work.
// With AVX2, so that few are estimated to take less time than they do; and on an EPYC with AVX512-VNNI.
struct TileCosts {
  double run, channel, arranged, row, output;
};
constexpr TileCosts kTiles{1e4, 60, 0.15, 5, 0.22}, kByteDotTiles{1.5e3, 18, 0.25, 0, 0.17};
const TileCosts& tile_costs(const ArchFlags& arch) { return arch.avx512_vnni ? kByteDotTiles : kTiles; }

constexpr double kDirect = 0.5;  // of a product

// Of a dot product of vectors: of bytes in one instruction, of bytes in pairs, and of 16-bit integers.
double dot_nanoseconds(const kernels::IntegerConvKernel& kernel) {
  return kernel.saturates ? 0.36 : kernel.takes_bytes() ? 0.27 : 0.26;
}

// Nanoseconds that floats take in addition: to widen an element of src, and to finish one of dst.
constexpr double kWidened = 0.12, kFinished = 0.4;

// Up to how many times as long as integers floats are looked at closely, which needs their weights.
constexpr double kUnsure = 1.5;

int64_t src_count(const ConvProblem& p) { return p.mb * p.ic * product_of(p.src_size, p.ndims); }
int64_t dst_count(const ConvProblem& p) { return p.mb * p.oc * product_of(p.dst_size, p.ndims); }

double products(Op op, const ConvProblem& p) {
  const double taps = static_cast<double>(product_of(p.ker, p.ndims));
  return op == Op::kConv ? static_cast<double>(dst_count(p)) * static_cast<double>(p.ic / p.g) * taps
                         : static_cast<double>(src_count(p)) * static_cast<double>(p.oc / p.g) * taps;
}

size_t float_bytes(int64_t count) { return align64(static_cast<size_t>(count) * sizeof(float)); }

// The largest sum of magnitudes of weights whose products are added for an output. A product is at most 255 times as
// large.
int64_t largest_sum(const ConvProblem& p, const kernels::IntegerConvFilter& filter) {
  const int64_t count = p.ic / p.g * product_of(p.ker, p.ndims);
  int64_t largest = 0;
  for (int64_t m = 0; m < p.oc; ++m) {
    int64_t sum = 0;
    for (int64_t i = m * count; i < (m + 1) * count; ++i) sum += std::abs(filter.w[i] - filter.zero(m));
    largest = std::max(largest, sum);
  }
  return largest;
}

// The same of a transposed convolution.
int64_t largest_transposed_sum(const ConvProblem& p, const kernels::IntegerConvFilter& filter) {
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
std::optional<kernels::IntegerTransposedWeights> transposed_weights(const ConvProblem& problem,
                                                                    const kernels::IntegerConvFilter& filter,
                                                                    const ArchFlags& arch) {
  if (const kernels::IntegerConvKernel* const pairs = kernels::get_saturating_integer_conv_kernel(arch)) {
    auto weights = kernels::IntegerTransposedWeights::make(*pairs, problem, filter);
    if (weights && weights->excess_share() <= kernels::IntegerConvWeights::kMostExcess) return weights;
  }
  return kernels::IntegerTransposedWeights::make(kernels::get_integer_conv_kernel(arch), problem, filter);
}

double integer_nanoseconds(Op op, const ConvProblem& p, const kernels::IntegerWork& work,
                           const kernels::IntegerConvKernel& kernel, const ArchFlags& arch) {
  const auto outputs = static_cast<double>(dst_count(p));
  const double products = work.dots * dot_nanoseconds(kernel);
  if (op == Op::kConv && kernel.stores_results && !kernels::is_integer_depthwise(p)) {
    const TileCosts& costs = tile_costs(arch);
    return products + work.arranged * costs.arranged + work.rows * costs.row + outputs * costs.output;
  }
  const double output = op == Op::kConv ? kOutput : kOutput + kInterleaved;
  const double slower = arch.avx2_fma || arch.neon ? 1 : kPortable;
  return slower * (products + work.arranged * kArranged + work.rows * kRow + work.items * kItem + outputs * output);
}

// What computes depthwise convolutions by rows; null where dot products of bytes do, but for AVX-512, with which rows
// were measured to take less time.
const kernels::IntegerDepthwiseKernel* depthwise_kernel(const ArchFlags& arch) {
  return arch.has_byte_dots() && !arch.avx512_vnni ? nullptr : kernels::get_integer_depthwise_kernel(arch);
}

// Of a depthwise convolution by rows.
double rows_nanoseconds(const ConvProblem& p) {
  const int64_t pairs = kernels::IntegerDepthwiseWeights::window_count(p);
  constexpr int64_t kOutputs = 16;  // of a block
  constexpr double kBlock = 3, kPair = 0.75, kRowOfBlocks = 6, kChannel = 50, kWidenedToShort = 0.05;
  const int64_t width = p.dst_size[p.ndims - 1];
  const double row = static_cast<double>(ceil_div(width, kOutputs)) * (kBlock + kPair * static_cast<double>(pairs));
  return static_cast<double>(dst_count(p) / width) * (row + kRowOfBlocks) +
         static_cast<double>(p.mb * p.oc) * kChannel + static_cast<double>(src_count(p)) * kWidenedToShort;
}

// Of a depthwise convolution by channels, on an EPYC with AVX512-VNNI.
double channels_nanoseconds(const ConvProblem& p) {
  constexpr double kRun = 450, kBlock = 390, kOutput = 0.29, kDot = 0.04, kTransposed = 0.082;
  const double blocks = static_cast<double>(p.mb * ceil_div(p.g, kernels::kChannelLanes));
  const double channels = blocks * kernels::kChannelLanes;
  const double output = kOutput + kDot * static_cast<double>(kernels::IntegerChannelsWeights::lanes(p));
  return kRun + kBlock * blocks + channels * static_cast<double>(product_of(p.dst_size, p.ndims)) * output +
         channels * static_cast<double>(product_of(p.src_size, p.ndims)) * kTransposed;
}

// Of the faster one of both, where their kernels are given.
double depthwise_nanoseconds(const ConvProblem& p, bool has_channels, bool has_rows) {
  constexpr double kRows = 0.83;  // of what rows are estimated to take, on that EPYC
  if (!has_channels) return rows_nanoseconds(p);
  return has_rows ? std::min(channels_nanoseconds(p), kRows * rows_nanoseconds(p)) : channels_nanoseconds(p);
}

ConvProblem without_activation(ConvProblem problem) {
  problem.activation = Activation();
  return problem;
}

ConvOptions exact_options() {
  ConvOptions options;
  options.is_exact = true;
  return options;
}

double floats_overhead(const ConvProblem& p) {
  return static_cast<double>(src_count(p)) * kWidened + static_cast<double>(dst_count(p)) * kFinished;
}

// With other weights in every run.
double rough_floats_nanoseconds(Op op, const ConvProblem& p, const ArchFlags& arch) {
  const ConvProblem plain = without_activation(p);
  const Convolution floats(DataType::kFloat, op, plain, nullptr, Weights::kOfRun, arch, exact_options());
  return floats.nanoseconds(plain, nullptr) + floats_overhead(p);
}

}  // namespace

double quantized_conv_nanoseconds(const ConvProblem& problem, const ArchFlags& arch) {
  if (dst_count(problem) == 0 || problem.ic == 0) return 0;
  constexpr double kUsualExcess = 0.05;
  const double always = tile_costs(arch).run + tile_costs(arch).channel * static_cast<double>(problem.oc);
  const kernels::IntegerConvKernel* kernel = kernels::get_saturating_integer_conv_kernel(arch);
  const bool saturates = kernel != nullptr && !kernels::is_integer_depthwise(problem);
  if (!saturates) kernel = &kernels::get_integer_conv_kernel(arch);
  const double floats = always + rough_floats_nanoseconds(Op::kConv, problem, arch);
  const bool has_rows = depthwise_kernel(arch) != nullptr && kernels::IntegerDepthwiseWeights::takes(problem);
  const bool has_channels =
      kernels::get_integer_channels_kernel(arch) != nullptr && kernels::IntegerChannelsWeights::takes(problem);
  if (has_rows || has_channels) {
    return std::min(always + depthwise_nanoseconds(problem, has_channels, has_rows), floats);
  }
  const auto layout = kernels::IntegerConvLayout::make(problem, *kernel);
  if (!layout) return floats;
  const kernels::IntegerWork work = integer_conv_work(problem, *layout, *kernel, saturates ? kUsualExcess : 0);
  return std::min(always + integer_nanoseconds(Op::kConv, problem, work, *kernel, arch), floats);
}

QuantizedConvolution::QuantizedConvolution(Op op, const ConvProblem& problem, const kernels::IntegerConvFilter& filter,
                                           const ArchFlags& arch, ConvOptions options, bool to_floats)
    : op_(op),
      node_(without_activation(problem)),
      filter_(filter),
      arch_(arch),
      options_(std::move(options)),
      result_(kernels::get_integer_result_kernel(arch)),
      rows_kernel_(depthwise_kernel(arch)),
      channels_kernel_(kernels::get_integer_channels_kernel(arch)),
      phases_(op == Op::kConv ? std::nullopt : transposed_weights(problem, filter, arch)) {
  if (op == Op::kConv) {
    tiles_.emplace(kernels::IntegerConvWeights::for_fastest(arch, problem, filter));
    if (rows_kernel_ != nullptr) rows_ = kernels::IntegerDepthwiseWeights::make(problem, filter);
    if (channels_kernel_ != nullptr && !to_floats) channels_ = kernels::IntegerChannelsWeights::make(problem, filter);
  }
  constexpr int64_t kExact = int64_t{1} << 24, kLargest = 255;
  if (problem.ic == 0 || problem.oc == 0) return;
  const int64_t largest = op == Op::kConv ? largest_sum(problem, filter) : largest_transposed_sum(problem, filter);
  may_be_floats_ = largest <= kExact / kLargest;
}

const QuantizedConvolution::Floats& QuantizedConvolution::floats() const {
  std::call_once(floats_made_, [&] {
    const int64_t count = node_.ic / node_.g * node_.oc * product_of(node_.ker, node_.ndims);
    floats_.weights.resize(count);
    // One zero point for all.
    result_.widen(filter_.w.data, filter_.w.is_signed, filter_.zero(0), count, floats_.weights.data());
    floats_.convolution = std::make_unique<Convolution>(DataType::kFloat, op_, node_, floats_.weights.data(),
                                                        Weights::kConstant, arch_, exact_options());
  });
  return floats_;
}

void QuantizedConvolution::choose_integers(QuantizedChoice* choice) const {
  const ConvProblem& problem = choice->problem;
  const bool may_be_rows = options_.implementation != kIntegerTiles && options_.implementation != kIntegerChannels;
  const bool may_be_channels = options_.implementation != kIntegerTiles && options_.implementation != kIntegerRows;
  choice->is_rows = rows_ && rows_->supports(problem) && may_be_rows;
  choice->is_channels = channels_ && channels_->supports(problem) && may_be_channels;
  if (choice->is_rows || choice->is_channels) {
    choice->nanoseconds = depthwise_nanoseconds(problem, choice->is_channels, choice->is_rows);
    if (choice->is_channels && choice->nanoseconds < channels_nanoseconds(problem)) choice->is_channels = false;
    if (choice->is_channels) choice->is_rows = false;
    return;
  }
  if (phases_) choice->phases = kernels::IntegerTransposedLayout::make(problem, *phases_);
  if (tiles_) choice->tiles = kernels::IntegerConvLayout::make(problem, tiles_->kernel());
  if (choice->phases) {
    const kernels::IntegerWork work = integer_transposed_work(problem, *choice->phases, *phases_);
    choice->nanoseconds = integer_nanoseconds(op_, problem, work, phases_->kernel(), arch_);
  } else if (choice->tiles) {
    const kernels::IntegerConvKernel& kernel = tiles_->kernel();
    const kernels::IntegerWork work = integer_conv_work(problem, *choice->tiles, kernel, tiles_->excess_share());
    choice->nanoseconds = integer_nanoseconds(op_, problem, work, kernel, arch_);
  } else {
    choice->nanoseconds = kDirect * products(op_, problem);
  }
}

std::shared_ptr<const QuantizedChoice> QuantizedConvolution::choose(const ConvProblem& problem) const {
  const auto choice = std::make_shared<QuantizedChoice>();
  choice->problem = problem;
  choice->is_empty = dst_count(problem) == 0;
  if (choice->is_empty) return choice;
  choose_integers(choice.get());
  const char* const in_integers = op_ != Op::kConv      ? kIntegerPhases
                                  : choice->is_channels ? kIntegerChannels
                                  : choice->is_rows     ? kIntegerRows
                                                        : kIntegerTiles;
  const bool has_integers = choice->phases || choice->tiles || choice->is_rows || choice->is_channels;
  const char* name = has_integers ? in_integers : "integer_direct";
  std::vector<LoggedEstimate> estimates;
  if (has_integers) estimates.push_back({name, choice->nanoseconds, {}});
  if (may_be_floats_) {
    const bool is_asked_for = !has_integers || options_.implementation == kDequantized;
    double nanoseconds = rough_floats_nanoseconds(op_, problem, arch_);
    if (is_asked_for || nanoseconds < kUnsure * choice->nanoseconds) {
      const ConvProblem plain = without_activation(problem);
      nanoseconds = floats().convolution->nanoseconds(plain, floats().weights.data()) + floats_overhead(problem);
      const bool is_faster = nanoseconds < choice->nanoseconds && options_.implementation != in_integers;
      if (is_asked_for || is_faster) {
        name = kDequantized, choice->nanoseconds = nanoseconds;
        choice->phases.reset(), choice->tiles.reset(), choice->is_rows = choice->is_channels = false;
        choice->floats = floats().convolution->choose(plain, floats().weights.data());
      }
    }
    estimates.push_back({kDequantized, nanoseconds, {}});
  }
  if (!options_.choices.empty()) log_choice(options_.choices, options_.node, problem, name, estimates);
  return choice;
}

size_t QuantizedConvolution::scratch_bytes(const QuantizedChoice& choice, int threads) const {
  if (choice.phases) return integer_transposed_scratch_bytes(choice.problem, *choice.phases, *phases_, threads);
  if (choice.tiles) return integer_conv_scratch_bytes(choice.problem, *choice.tiles, *tiles_, threads);
  if (choice.is_rows) return kernels::integer_depthwise_scratch_bytes(choice.problem, threads);
  if (choice.is_channels) return kernels::integer_channels_scratch_bytes(choice.problem, threads);
  if (choice.floats == nullptr) return 0;
  return float_bytes(src_count(choice.problem)) + float_bytes(dst_count(choice.problem)) +
         floats().convolution->scratch_bytes(*choice.floats, threads);
}

void QuantizedConvolution::run(const QuantizedChoice& choice, const IntegerResultOperands& operands, void* scratch,
                               const Parallel& parallel) const {
  if (choice.is_empty) return;
  if (choice.phases) {
    integer_transposed(choice.problem, *choice.phases, *phases_, result_, operands, scratch, parallel);
  } else if (choice.tiles) {
    integer_conv_result(choice.problem, *choice.tiles, *tiles_, result_, operands, scratch, parallel);
  } else if (choice.is_rows) {
    integer_depthwise_result(choice.problem, *rows_, *rows_kernel_, operands, scratch, parallel);
  } else if (choice.is_channels) {
    integer_channels_result(choice.problem, *channels_, *channels_kernel_, operands, scratch, parallel);
  } else if (choice.floats != nullptr) {
    run_floats(choice, operands, scratch, parallel);
  } else if (op_ == Op::kConv) {
    integer_conv_result_direct(choice.problem, filter_, result_, operands, parallel);
  } else {
    integer_transposed_direct(choice.problem, filter_, result_, operands, parallel);
  }
}

// Sums of integers below 2^24 are exact in any order.
void QuantizedConvolution::run_floats(const QuantizedChoice& choice, const IntegerResultOperands& operands,
                                      void* scratch, const Parallel& parallel) const {
  const ConvProblem& p = choice.problem;
  const int64_t src = product_of(p.src_size, p.ndims), dst = product_of(p.dst_size, p.ndims);
  auto* const x = static_cast<unsigned char*>(scratch);
  auto* const sums = x + float_bytes(src_count(p));
  const auto floats = [](unsigned char* memory, int64_t first) { return reinterpret_cast<float*>(memory) + first; };
  for_each(parallel, p.mb * p.ic, [&](int64_t i) {
    result_.widen(operands.x.data + i * src, operands.x.is_signed, operands.x_zero, src, floats(x, i * src));
  });
  this->floats().convolution->run(*choice.floats, x, this->floats().weights.data(), nullptr, nullptr, sums,
                                  sums + float_bytes(dst_count(p)), parallel);
  const int64_t bytes = operands.type == kernels::ResultType::kFloat ? sizeof(float) : 1;
  for_each(parallel, p.mb * p.oc, [&](int64_t i) {
    kernels::IntegerResultArgs args = integer_result_args(p, operands, i % p.oc);
    const float* const row = floats(sums, i * dst);
    args.sums = &row, args.phases = 1, args.count = dst;
    args.y = static_cast<unsigned char*>(operands.y) + i * dst * bytes;
    if (operands.biases != nullptr) args.biases = operands.biases + i % p.oc * dst;
    if (operands.residual != nullptr) args.residual = static_cast<const unsigned char*>(operands.residual) + i * dst;
    result_(operands.type, args);
  });
}

}  // namespace ortconv
