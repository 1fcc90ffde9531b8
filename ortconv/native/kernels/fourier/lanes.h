// Vectors of so many lanes, and square blocks of them transposed. Included by fourier_loops.h, in its namespace.

#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12)
#define ORTCONV_SHUFFLES 1
#endif

// One lane is a plain number.
template <class S, int kLanes>
struct VectorOf {
#if defined(__GNUC__)
  typedef S Type __attribute__((vector_size(kLanes * sizeof(S))));
#endif
};
template <class S>
struct VectorOf<S, 1> {
  using Type = S;
};

#if defined(ORTCONV_SHUFFLES)
// The lane, counted through two vectors, that lane `to` of a step of the transposition takes: from the low or the high
// half of blocks of `span` lanes, in turns so many lanes of either vector.
constexpr int interleaved(int to, int span, int run, bool high) {
  const int at = to % span, turn = at / run;
  return to - at + (high ? span / 2 : 0) + turn / 2 * run + at % run;
}

template <int kLanes, int kSpan, int kRun, bool kHigh, class V, int... kTo>
ORTCONV_ALWAYS_INLINE inline V interleave(V a, V b, std::integer_sequence<int, kTo...>) {
  return __builtin_shufflevector(
      a, b, (interleaved(kTo, kSpan, kRun, kHigh) + (kTo % kSpan / kRun % 2 == 0 ? 0 : kLanes))...);
}

// Runs of kRun lanes of a and b in turns, from the low or the high half of each span.
template <int kLanes, int kSpan, int kRun, bool kHigh, class V>
ORTCONV_ALWAYS_INLINE inline V interleave(V a, V b) {
  return interleave<kLanes, kSpan, kRun, kHigh>(a, b, std::make_integer_sequence<int, kLanes>());
}

// Exchanges the off-diagonal blocks of kRun by kRun lanes, of each square of twice that.
template <int kLanes, int kRun, class V>
ORTCONV_ALWAYS_INLINE inline void exchange(V* v) {
  ORTCONV_UNROLL
  for (int i = 0; i < kLanes; ++i) {
    if ((i & kRun) != 0) continue;
    const V a = v[i], b = v[i + kRun];
    v[i] = interleave<kLanes, 2 * kRun, kRun, false>(a, b);
    v[i + kRun] = interleave<kLanes, 2 * kRun, kRun, true>(a, b);
  }
}
#endif

// v[i] lane j becomes v[j] lane i.
template <class S, int kLanes, class V>
ORTCONV_ALWAYS_INLINE inline void transpose(V (&v)[kLanes]) {
#if defined(ORTCONV_SHUFFLES)
  if constexpr (kLanes > 1) {
    constexpr int kWithin = 16 / sizeof(S);  // lanes that one instruction interleaves
    ORTCONV_UNROLL
    for (int i = 0; i < kLanes; i += kWithin) {
      if constexpr (kWithin == 2) {
        const V a = v[i], b = v[i + 1];
        v[i] = interleave<kLanes, 2, 1, false>(a, b);
        v[i + 1] = interleave<kLanes, 2, 1, true>(a, b);
      } else {
        const V a = interleave<kLanes, 4, 1, false>(v[i], v[i + 1]), b = interleave<kLanes, 4, 1, true>(v[i], v[i + 1]);
        const V c = interleave<kLanes, 4, 1, false>(v[i + 2], v[i + 3]);
        const V d = interleave<kLanes, 4, 1, true>(v[i + 2], v[i + 3]);
        v[i] = interleave<kLanes, 4, 2, false>(a, c);
        v[i + 1] = interleave<kLanes, 4, 2, true>(a, c);
        v[i + 2] = interleave<kLanes, 4, 2, false>(b, d);
        v[i + 3] = interleave<kLanes, 4, 2, true>(b, d);
      }
    }
    if constexpr (kLanes >= 2 * kWithin) exchange<kLanes, kWithin>(v);
    if constexpr (kLanes >= 4 * kWithin) exchange<kLanes, 2 * kWithin>(v);
  }
#else
  S block[kLanes][kLanes], turned[kLanes][kLanes];
  std::memcpy(block, v, sizeof block);
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < kLanes; ++j) turned[j][i] = block[i][j];
  }
  std::memcpy(v, turned, sizeof turned);
#endif
}
