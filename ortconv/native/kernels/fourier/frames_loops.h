// Frames of signals: the steps of short-time transforms. Included by fourier_loops.h, in its namespace.

// Transposes rows: vector j has column j, a lane for each row, times factors[j] (null: 1).
template <class S>
void gather(const S* const* rows, int64_t columns, const S* factors, Vector<S>* to) {
  constexpr int L = kLanes<S>;
  using V = Vector<S>;
  int64_t j = 0;
  for (; j + L <= columns; j += L) {
    V v[L];
    ORTCONV_UNROLL
    for (int l = 0; l < L; ++l) v[l] = load(rows[l] + j);
    if (factors != nullptr) {
      const V f = load(factors + j);
      ORTCONV_UNROLL
      for (int l = 0; l < L; ++l) v[l] *= f;
    }
    transpose<S, L>(v);
    ORTCONV_UNROLL
    for (int l = 0; l < L; ++l) to[j + l] = v[l];
  }
  for (; j < columns; ++j) {
    S lanes[L];
    for (int l = 0; l < L; ++l) lanes[l] = factors == nullptr ? rows[l][j] : rows[l][j] * factors[j];
    std::memcpy(to + j, lanes, sizeof lanes);
  }
}

// How many frames are transformed before their spectra are written: whole cache lines of each bin, as far as the
// frames lie in a cache.
template <class S>
int64_t group_of(int64_t rows) {
  constexpr int64_t kElements = 1 << 15, kMost = 64;
  const int64_t least = std::max<int64_t>(kLanes<S>, 64 / sizeof(S));
  return std::clamp(kElements / std::max<int64_t>(rows, 1) / least * least, least, kMost);
}

// The scratch of frames: those of a group, one more for intermediate results, and rows of a signal, or of products.
template <class S>
struct FrameMemory {
  int64_t rows, group;  // rows of a transform: its length, or the taps without one
  int64_t padded_taps;
  int64_t before = 0, pitch = 0;  // of rows of products: frames of earlier groups, and the distance of rows

  FrameMemory(int64_t length, const FrameGrid& grid)
      : rows(std::max(length, grid.taps)), group(group_of<S>(rows)), padded_taps(align_up(grid.taps, 64 / sizeof(S))) {
    constexpr int64_t kMostBytes = 1 << 17;
    const int64_t earlier = align_up((grid.taps - 1) / grid.hop, kLanes<S>);
    if (grid.hop >= kLanes<S> || earlier > group) return;
    if (grid.taps * (earlier + group) * static_cast<int64_t>(sizeof(S)) > kMostBytes) return;
    before = earlier;
    pitch = before + group;
  }

  bool has_phases() const { return pitch > 0; }
  size_t bytes() const {
    const int64_t last = std::max(padded_taps * kLanes<S>, padded_taps * pitch);
    return static_cast<size_t>(rows * (group + kLanes<S>)+last) * sizeof(S);
  }
  Vector<S>* blocks(void* scratch) const { return static_cast<Vector<S>*>(scratch); }
  Vector<S>* other(void* scratch) const { return blocks(scratch) + rows * (group / kLanes<S>); }
  S* signal_rows(void* scratch) const { return reinterpret_cast<S*>(other(scratch) + rows); }
  S* products(void* scratch) const { return signal_rows(scratch); }
};

template <class S>
size_t frame_scratch(int64_t length, const FrameGrid& grid) {
  return FrameMemory<S>(length, grid).bytes();
}

// Where each lane's frame lies; frames that reach into the padding, or are no sums, are copied to `copies`.
template <class T, class S = Sum<T>>
void find_rows(const ForwardFrames<T>& in, int64_t first, int64_t count, S* copies, int64_t pitch, const S** rows) {
  const FrameGrid& grid = in.grid;
  for (int64_t l = 0; l < kLanes<S>; ++l) {
    if (l >= count) {
      rows[l] = rows[count - 1];
      continue;
    }
    const int64_t begin = (first + l) * grid.hop - grid.padding;
    if constexpr (std::is_same_v<T, S>) {
      if (begin >= 0 && begin + grid.taps <= grid.length) {
        rows[l] = in.signal + begin;
        continue;
      }
    }
    S* const copy = copies + l * pitch;
    const int64_t from = std::clamp<int64_t>(-begin, 0, grid.taps);
    const int64_t to = std::clamp<int64_t>(grid.length - begin, from, grid.taps);
    std::fill(copy, copy + from, S());
    for (int64_t j = from; j < to; ++j) copy[j] = widen(in.signal[begin + j]);
    std::fill(copy + to, copy + grid.taps, S());
    rows[l] = copy;
  }
}

// Rows of vectors, one of each block, times a gain: the frames of one bin. A null row is zero.
template <class T, class S = Sum<T>>
void store_bin(const Vector<S>* row, int64_t pitch, S gain, int64_t count, T* to) {
  constexpr int L = kLanes<S>;
  if (row == nullptr) {
    for (int64_t t = 0; t < count; ++t) round_to(to + t, S());
    return;
  }
  int64_t t = 0;
  for (; t + L <= count; t += L, row += pitch) store(to + t, *row * gain);
  if (t < count) store_first(to + t, *row * gain, count - t);
}

template <class T, class S = Sum<T>>
void forward(const FourierPlan& base, const ForwardFrames<T>& in, void* scratch) {
  constexpr int L = kLanes<S>;
  using V = Vector<S>;
  const Plan<S>& plan = static_cast<const Plan<S>&>(base);
  const FrameGrid& grid = in.grid;
  const int64_t n = plan.length;
  const FrameMemory<S> memory(n, grid);
  V* const blocks = memory.blocks(scratch);
  V* const other = memory.other(scratch);
  S* const copies = memory.signal_rows(scratch);
  for (int64_t first = in.first; first < in.last; first += memory.group) {
    const int64_t count = std::min(memory.group, in.last - first);
    V* block = blocks;
    for (int64_t t = 0; t < count; t += L, block += n) {
      const S* rows[L];
      find_rows(in, first + t, std::min<int64_t>(L, count - t), copies, memory.padded_taps, rows);
      gather(rows, grid.taps, in.window, block);
      std::fill(block + grid.taps, block + n, V{});
      plan.real(block, true, other);
    }
    for (int64_t f = 0; f < grid.bins; ++f) {
      const bool is_conjugate = 2 * f > n;
      const int64_t k = is_conjugate ? n - f : f;
      const int64_t at = f * grid.frames + first;
      if (in.cosines != nullptr) {
        store_bin(blocks + (k == 0 ? 0 : 2 * k - 1), n, in.cosine_gains[f], count, in.cosines + at);
      }
      if (in.sines != nullptr) {
        const bool is_real = k == 0 || 2 * k == n;
        const S gain = is_conjugate ? in.sine_gains[f] : -in.sine_gains[f];
        store_bin(is_real ? nullptr : blocks + 2 * k, n, gain, count, in.sines + at);
      }
    }
  }
}

// One row of the spectra, of each block one vector, times a gain; added to what is there, or in its place.
template <class T, class S = Sum<T>>
void load_bin(const T* from, int64_t count, S gain, bool is_added, Vector<S>* row, int64_t pitch) {
  constexpr int L = kLanes<S>;
  using V = Vector<S>;
  for (int64_t t = 0; t < count; t += L, row += pitch) {
    const V v = (t + L <= count ? load(from + t) : load_first(from + t, count - t)) * gain;
    *row = is_added ? *row + v : v;
  }
}

template <class S>
void clear_row(int64_t count, Vector<S>* row, int64_t pitch) {
  for (int64_t t = 0; t < count; t += kLanes<S>, row += pitch) *row = Vector<S>{};
}

// The Hermitian spectra, of frames [first, first + count), whose real inverse transforms are the sums over all bins.
template <class T, class S = Sum<T>>
void load_spectra(const InverseFrames<T>& in, int64_t n, int64_t first, int64_t count, Vector<S>* blocks) {
  const FrameGrid& grid = in.grid;
  const auto load_part = [&](const T* part, const S* gains, int64_t k, bool is_sine, Vector<S>* row) {
    const bool is_own = k == 0 || 2 * k == n;  // a bin that is its own conjugate
    const S half = is_own ? S(1) : is_sine ? S(-0.5) : S(0.5);
    const bool has_bin = part != nullptr && k < grid.bins;
    const bool has_mirror = part != nullptr && !is_own && n - k < grid.bins;
    if (has_bin) load_bin(part + k * grid.frames + first, count, gains[k] * half, false, row, n);
    if (has_mirror) {
      const S sign = is_sine ? -half : half;
      load_bin(part + (n - k) * grid.frames + first, count, gains[n - k] * sign, has_bin, row, n);
    }
    if (!has_bin && !has_mirror) clear_row<S>(count, row, n);
  };
  for (int64_t k = 0; 2 * k <= n; ++k) {
    load_part(in.cosines, in.cosine_gains, k, false, blocks + (k == 0 ? 0 : 2 * k - 1));
    if (k > 0 && 2 * k < n) load_part(in.sines, in.sine_gains, k, true, blocks + 2 * k);
  }
}

// Adds frames, a lane each, times the window, where they lie. The order is always the same: blocks of taps, then lanes.
template <class T, class S = Sum<T>>
void overlap(const InverseFrames<T>& in, const Vector<S>* block, int64_t first, int64_t count) {
  constexpr int L = kLanes<S>;
  using V = Vector<S>;
  const FrameGrid& grid = in.grid;
  S* const sums = in.sums - in.begin;
  const int64_t start = first * grid.hop;
  const bool is_within = count == L && start >= in.begin && start + (L - 1) * grid.hop + grid.taps <= in.end;
  const auto add_clipped = [&](const S* values, int64_t columns, int64_t position) {
    for (int64_t j = std::max<int64_t>(0, in.begin - position); j < std::min(columns, in.end - position); ++j) {
      sums[position + j] += values[j];
    }
  };
  for (int64_t j = 0; j < grid.taps; j += L) {
    const int64_t columns = std::min<int64_t>(L, grid.taps - j);
    V v[L];
    if (columns == L) {
      ORTCONV_UNROLL
      for (int l = 0; l < L; ++l) v[l] = block[j + l] * in.window[j + l];
    } else {
      for (int l = 0; l < L; ++l) v[l] = l < columns ? block[j + l] * in.window[j + l] : V{};
    }
    transpose<S, L>(v);
    if (is_within && columns == L) {
      ORTCONV_UNROLL
      for (int l = 0; l < L; ++l) {
        S* const to = sums + start + l * grid.hop + j;
        store(to, load(to) + v[l]);
      }
      continue;
    }
    S values[L][L];
    std::memcpy(values, v, sizeof values);
    for (int64_t l = 0; l < count; ++l) add_clipped(values[l], columns, start + l * grid.hop + j);
  }
}

// The frames [first, first + count), a block of lanes after the other, from which the window is still to be taken.
template <class T, class S = Sum<T>>
void load_frames(const Plan<S>* plan, const InverseFrames<T>& in, const FrameMemory<S>& memory, int64_t first,
                 int64_t count, void* scratch) {
  Vector<S>* const blocks = memory.blocks(scratch);
  if (plan == nullptr) {
    for (int64_t j = 0; j < in.grid.taps; ++j) {
      load_bin(in.cosines + j * in.grid.frames + first, count, S(1), false, blocks + j, memory.rows);
    }
    return;
  }
  load_spectra(in, plan->length, first, count, blocks);
  for (int64_t b = 0; b * kLanes<S> < count; ++b) plan->real(blocks + b * memory.rows, false, memory.other(scratch));
}

// Writes what L frames begin to the positions from `start` on: `hop` of each, from lane l of the vectors of a tile.
template <class T, class S = Sum<T>>
void store_phases(const InverseFrames<T>& in, Vector<S> (&tile)[kLanes<S>], int64_t phase, int64_t start) {
  constexpr int L = kLanes<S>;
  const int64_t hop = in.grid.hop, columns = std::min<int64_t>(L, hop - phase);
  transpose<S, L>(tile);
  const int64_t from = start + phase;
  if (from >= in.begin && from + (L - 1) * hop + L <= in.end && (columns == L || hop < L)) {
    // What a vector holds beyond its columns the next one replaces.
    S* const to = in.sums + (from - in.begin);
    ORTCONV_UNROLL
    for (int l = 0; l + 1 < L; ++l) store(to + l * hop, tile[l]);
    store_first(to + (L - 1) * hop, tile[L - 1], columns);
    return;
  }
  S values[L][L];
  std::memcpy(values, tile, sizeof values);
  for (int64_t l = 0; l < L; ++l) {
    const int64_t position = from + l * hop;
    for (int64_t i = std::max<int64_t>(0, in.begin - position); i < std::min(columns, in.end - position); ++i) {
      in.sums[position - in.begin + i] = values[l][i];
    }
  }
}

// The same sums where frames overlap so closely that adding one after the other to memory would wait for the last one:
// those of L frames' positions t * hop + phase at once, from rows of products with neighboring frames side by side.
template <class T, class S = Sum<T>>
void add_phases(const Plan<S>* plan, const InverseFrames<T>& in, const FrameMemory<S>& memory, void* scratch) {
  constexpr int L = kLanes<S>;
  using V = Vector<S>;
  const FrameGrid& grid = in.grid;
  const int64_t taps = grid.taps, hop = grid.hop, before = memory.before, pitch = memory.pitch, group = memory.group;
  const int64_t most = (taps - 1) / hop;
  const V* const blocks = memory.blocks(scratch);
  S* const products = memory.products(scratch);
  std::fill_n(products, taps * pitch, S());
  for (int64_t first = in.first; first < in.last + before && first * hop < in.end; first += group) {
    const int64_t count = std::clamp<int64_t>(in.last - first, 0, group);
    if (count > 0) load_frames(plan, in, memory, first, count, scratch);
    for (int64_t j = 0; j < taps; ++j) {
      S* const row = products + j * pitch + before;
      for (int64_t t = 0; t < group; t += L) {
        store(row + t, t < count ? blocks[t / L * memory.rows + j] * in.window[j] : V{});
      }
    }
    for (int64_t t = 0; t < group && (first + t) * hop < in.end; t += L) {
      for (int64_t phase = 0; phase < hop; phase += L) {
        V tile[L];
        for (int64_t i = 0; i < L; ++i) {
          V sum{};
          if (phase + i < std::min(hop, taps)) {
            int64_t r = phase + i + most * hop < taps ? most : most - 1;
            const S* at = products + (phase + i + r * hop) * pitch + before + t - r;
            sum = load(at);
            for (; r > 0; --r) {
              at -= hop * pitch - 1;
              sum += load(at);
            }
          }
          tile[i] = sum;
        }
        store_phases(in, tile, phase, (first + t) * hop);
      }
    }
    for (int64_t j = 0; j < taps; ++j) std::copy_n(products + j * pitch + group, before, products + j * pitch);
  }
}

template <class T, class S = Sum<T>>
void add_frames(const FourierPlan* base, const InverseFrames<T>& in, void* scratch) {
  constexpr int L = kLanes<S>;
  const auto* const plan = static_cast<const Plan<S>*>(base);
  const FrameMemory<S> memory(plan == nullptr ? 0 : plan->length, in.grid);
  if (memory.has_phases()) {
    add_phases(plan, in, memory, scratch);
    return;
  }
  for (int64_t first = in.first; first < in.last; first += memory.group) {
    const int64_t count = std::min(memory.group, in.last - first);
    load_frames(plan, in, memory, first, count, scratch);
    for (int64_t t = 0; t < count; t += L) {
      overlap(in, memory.blocks(scratch) + t / L * memory.rows, first + t, std::min<int64_t>(L, count - t));
    }
  }
}
