// Copying rows of windows to dst, by functions for each length.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/element.h"

namespace ortconv::kernels::disjoint_windows {

// Of the windows of some positions in one channel.
template <class T>
struct Rows {
  const T* in;  // [position, pitch apart][row][tap]
  int64_t pitch, positions;
  const int64_t* places;   // where each window begins in dst, or kCut
  const int64_t* offsets;  // where each of its rows does
  int64_t rows, length;    // of a window; of a row
  int64_t step;            // from a tap of a row to the next one in dst
  Sum<T> bias;             // is added where T is the type of sums
  T* dst;
};
constexpr int64_t kCut = INT64_MIN;

// kLength taps; `length` of them if it is 0. They lie together in dst or `step` apart.
template <int kLength, bool kTogether, class T>
void copy_row(const T* in, int64_t length, Sum<T> bias, T* out, int64_t step) {
  // Numbers of 16 bits were rounded with their bias. Few are faster one by one.
  constexpr int kFew = 8;
  if constexpr (kTogether) step = 1;
  if constexpr (kTogether && !std::is_same_v<T, Sum<T>> && (kLength == 0 || kLength >= kFew)) {
    std::memcpy(out, in, static_cast<size_t>(kLength == 0 ? length : kLength) * sizeof(T));
  } else if constexpr (kLength == 0) {
    for (; length >= kFew && !kTogether; length -= kFew, in += kFew, out += kFew * step) {
      copy_row<kFew, kTogether>(in, kFew, bias, out, step);
    }
    for (int64_t k = 0; k < length; ++k) out[k * step] = with_bias<T>(in[k], bias);
  } else {
    T taps[kLength];  // so that the compiler need not know that dst is other memory
    for (int k = 0; k < kLength; ++k) taps[k] = with_bias<T>(in[k], bias);
    for (int k = 0; k < kLength; ++k) out[k * step] = taps[k];
  }
}

// Rows of kLength taps; of any number if it is 0.
template <int kLength, bool kTogether, class T>
void copy_rows(const Rows<T>& r) {
  const int64_t length = kLength == 0 ? r.length : kLength;
  const T* in = r.in;
  for (int64_t i = 0; i < r.positions; ++i, in += r.pitch) {
    if (r.places[i] == kCut) continue;
    T* const out = r.dst + r.places[i];
    for (int64_t row = 0; row < r.rows; ++row) {
      copy_row<kLength, kTogether>(in + row * length, length, r.bias, out + r.offsets[row], r.step);
    }
  }
}

// Of a part of one row, in some channels.
template <class T>
struct Channels {
  const T* in;
  int64_t in_step, channels, length;
  int64_t step;        // as above
  const Sum<T>* bias;  // may be null; as above
  T* dst;
  int64_t dst_step;
};

// kLength taps of each channel; any number if it is 0.
template <int kLength, bool kTogether, class T>
void copy_channels(const Channels<T>& r) {
  const T* in = r.in;
  T* out = r.dst;
  for (int64_t c = 0; c < r.channels; ++c, in += r.in_step, out += r.dst_step) {
    copy_row<kLength, kTogether>(in, r.length, r.bias == nullptr ? -Sum<T>() : r.bias[c], out, r.step);
  }
}

constexpr int kShort = 24;  // taps of a row
template <class T>
using RowsFn = void (*)(const Rows<T>&);
template <class T>
using ChannelsFn = void (*)(const Channels<T>&);
template <bool kTogether, class T, int... kLengths>
constexpr auto row_functions(std::integer_sequence<int, kLengths...>) {
  return std::array<RowsFn<T>, sizeof...(kLengths)>{copy_rows<kLengths, kTogether, T>...};
}
template <bool kTogether, class T, int... kLengths>
constexpr auto channel_functions(std::integer_sequence<int, kLengths...>) {
  return std::array<ChannelsFn<T>, sizeof...(kLengths)>{copy_channels<kLengths, kTogether, T>...};
}
// By length; the first ones take any.
template <bool kTogether, class T>
constexpr auto kCopyRows = row_functions<kTogether, T>(std::make_integer_sequence<int, kShort + 1>());
template <bool kTogether, class T>
constexpr auto kCopyChannels = channel_functions<kTogether, T>(std::make_integer_sequence<int, kShort + 1>());

template <class T>
RowsFn<T> copies_rows(int64_t length, int64_t step) {
  const size_t index = length <= kShort ? static_cast<size_t>(length) : 0;
  return step == 1 ? kCopyRows<true, T>[index] : kCopyRows<false, T>[index];
}
template <class T>
ChannelsFn<T> copies_channels(int64_t length, int64_t step) {
  const size_t index = length <= kShort ? static_cast<size_t>(length) : 0;
  return step == 1 ? kCopyChannels<true, T>[index] : kCopyChannels<false, T>[index];
}

}  // namespace ortconv::kernels::disjoint_windows
