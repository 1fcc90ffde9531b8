// Convolutions of 8-bit integers to floats: exact sums in 32 bits, which wrap, of (x - x_zero) * (w - w_zero).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/parallel.h"
#include "kernels/integer_conv/layout.h"

namespace ortconv::kernels {

// Elements of uint8 or int8.
struct Bytes {
  const uint8_t* data;
  bool is_signed;

  int32_t operator[](int64_t i) const { return is_signed ? static_cast<int8_t>(data[i]) : data[i]; }
};

// The weights w [oc, ic/g, ker...] and their zero points, of the same type: none, one, or one per output channel.
struct IntegerConvFilter {
  Bytes w;
  const uint8_t* zeros;
  int64_t zero_count;

  int32_t zero(int64_t m) const { return zero_count == 0 ? 0 : Bytes{zeros, w.is_signed}[zero_count == 1 ? 0 : m]; }
};

// The weights, packed for the kernel of an ISA.
class IntegerConvWeights {
 public:
  // Lanes hold the input channels in their order, or in one that a kernel that saturates prefers.
  enum class Order { kGiven, kFree };
  IntegerConvWeights(const IntegerConvKernel& kernel, const ConvProblem& problem, const IntegerConvFilter& filter,
                     Order order = Order::kFree);

  // For the fastest kernel: the one that saturates where few weights exceed.
  static IntegerConvWeights for_fastest(const ArchFlags& arch, const ConvProblem& problem,
                                        const IntegerConvFilter& filter);

  const IntegerConvKernel& kernel() const { return kernel_; }
  bool depthwise() const { return depthwise_; }
  int64_t blocks() const { return blocks_; }  // lanes of input channels in a group
  int64_t panels() const { return panels_; }  // of output channels in a group
  const std::vector<IntegerWindow>& windows() const { return windows_; }
  // The input channel of a group whose number is at a place of its lanes.
  int64_t channel_at(int64_t group, int64_t place) const {
    return order_.empty() ? place : order_[group * inputs_ + place];
  }

  // The packed weights of a panel, or of a channel where depthwise().
  const uint32_t* lanes(int64_t index) const { return lanes_.data() + index * stride_; }
  // Weights of 1, for one row of a panel or one channel: they sum x. Null where no channel has a zero point that is
  // subtracted after the sums.
  const uint32_t* ones() const { return ones_.empty() ? nullptr : ones_.data(); }

  // Of a kernel that saturates: finds what of a panel is not in lanes(), for sources of this layout.
  void find_excess(int64_t panel, const int64_t* taps, int64_t block_stride, std::vector<IntegerExcess>* found) const;
  // How many of all lanes have some; 0 for other kernels. Up to kMostExcess, the kernel that saturates, which
  // multiplies twice as many numbers at once, takes less time than the others.
  double excess_share() const { return excess_share_; }
  static constexpr double kMostExcess = 0.12;

  // What is subtracted from the sums of an output channel, given the zero point of x.
  IntegerChannel channel(int64_t index, const IntegerShift& shift) const;

 private:
  // Of a lane of weights, what is not in it.
  struct Excess {
    int32_t tap, block;
    uint32_t weights;
  };

  template <class Number>
  std::vector<uint32_t> packed(int64_t channels, Number number) const;
  void take_excess();

  const IntegerConvKernel& kernel_;
  bool depthwise_;
  int64_t inputs_, outputs_, taps_;  // input and output channels of a group
  int64_t blocks_, panels_, stride_;
  std::vector<IntegerWindow> windows_;
  std::vector<int64_t> order_;  // [groups][inputs]; empty: that of the channels
  std::vector<uint32_t> lanes_, ones_;
  // Of kernels that saturate, for each panel as many for each row: [count][rows], from excess_begins_[panel] on.
  std::vector<Excess> excess_;
  std::vector<int64_t> excess_begins_;
  double excess_share_ = 0;
  std::vector<int32_t> sums_, zeros_;  // of each output channel, where the kernel takes bytes
};

struct IntegerConvOperands {
  Bytes x;
  int32_t x_zero;
  float x_scale;
  const float* w_scales;
  int64_t w_scale_count;  // 1 or oc
  const float* bias;      // null: zeros
  float* y;
};

// `scratch` is 64-byte aligned and has integer_conv_scratch_bytes.
void integer_conv(const ConvProblem& problem, const IntegerConvLayout& layout, const IntegerConvWeights& weights,
                  const IntegerConvOperands& operands, void* scratch, const Parallel& parallel);
size_t integer_conv_scratch_bytes(const ConvProblem& problem, const IntegerConvLayout& layout,
                                  const IntegerConvWeights& weights, int threads);

// The same for a problem without a layout: slow, but copies nothing.
void integer_conv_direct(const ConvProblem& problem, const IntegerConvFilter& filter,
                         const IntegerConvOperands& operands, const Parallel& parallel);

}  // namespace ortconv::kernels
