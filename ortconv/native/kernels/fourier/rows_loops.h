// Transforms of an axis. Included by fourier_loops.h, in its namespace.

// Up to so many rows are transformed one by one.
template <class S>
constexpr int64_t kSingleRows = kLanes<S> / 2;

// The scratch of rows: two arrays of complex vectors, or numbers.
template <class S>
size_t row_scratch(int64_t length, int64_t rows) {
  return static_cast<size_t>(4 * (length + 1)) * (rows > kSingleRows<S> ? sizeof(Vector<S>) : sizeof(S));
}

// Up to L rows.
template <class T, int L, class S = Sum<T>>
void transform_block(const Plan<S>& plan, const FourierRows<T>& in, int64_t first, int64_t count, void* scratch) {
  using V = typename VectorOf<S, L>::Type;
  const int64_t n = plan.length;
  V* const data = static_cast<V*>(scratch);
  V* const other = data + 2 * (n + 1);
  const bool from_bins = in.y_parts == 1;
  const int64_t taken = std::min(in.size, from_bins ? n / 2 + 1 : n);
  const S scale = in.is_inverse ? S(1) / static_cast<S>(n) : S(1);
  const bool is_complex = !from_bins && in.x_parts == 2;
  // An inverse transform is a forward one with the parts of its input and of its result swapped.
  const int64_t real_part = is_complex && in.is_inverse ? 1 : 0;
  // Row l at `at` of an array of vectors.
  const auto lane = [](V* vectors, int64_t at, int64_t l) { return reinterpret_cast<S*>(vectors + at) + l; };
  std::fill(data, data + (from_bins ? n : n * in.x_parts), V{});
  for (int64_t l = 0; l < count; ++l) {
    const int64_t step = in.inner * in.x_parts;
    const T* const x = in.x + (first + l) / in.inner * in.size * step + (first + l) % in.inner * in.x_parts;
    if (from_bins) {
      *lane(data, 0, l) = taken > 0 ? widen(x[0]) : S();
      for (int64_t k = 1; k < taken; ++k) {
        *lane(data, 2 * k - 1, l) = widen(x[k * step]);
        if (2 * k < n) *lane(data, 2 * k, l) = widen(x[k * step + 1]);
      }
    } else {
      for (int64_t j = 0; j < taken; ++j) {
        for (int64_t part = 0; part < in.x_parts; ++part) {
          *lane(data, j * in.x_parts + (part ^ real_part), l) = widen(x[j * step + part]);
        }
      }
    }
  }
  if (is_complex) {
    plan.complex(reinterpret_cast<fft::cmplx<V>*>(data), reinterpret_cast<fft::cmplx<V>*>(other));
  } else {
    plan.real(data, !from_bins, other);
  }
  for (int64_t l = 0; l < count; ++l) {
    const int64_t step = in.inner * in.y_parts;
    T* const y = in.y + (first + l) / in.inner * in.count * step + (first + l) % in.inner * in.y_parts;
    for (int64_t k = 0; k < in.count; ++k) {
      if (from_bins) {
        round_to(y + k * step, *lane(data, k, l) * scale);
        continue;
      }
      S real, imaginary;
      if (is_complex) {
        real = *lane(data, 2 * k + real_part, l), imaginary = *lane(data, 2 * k + 1 - real_part, l);
      } else {
        const bool is_conjugate = 2 * k > n;
        const int64_t bin = is_conjugate ? n - k : k;
        real = *lane(data, bin == 0 ? 0 : 2 * bin - 1, l);
        imaginary = bin == 0 || 2 * bin == n ? S() : *lane(data, 2 * bin, l);
        if (is_conjugate != in.is_inverse) imaginary = -imaginary;
      }
      round_to(y + k * step, real * scale);
      round_to(y + k * step + 1, imaginary * scale);
    }
  }
}

// Rows that are left over are transformed one by one where that takes less time.
template <class T, class S = Sum<T>>
void transform(const FourierPlan& base, const FourierRows<T>& in, void* scratch) {
  constexpr int L = kLanes<S>;
  const Plan<S>& plan = static_cast<const Plan<S>&>(base);
  int64_t first = in.first;
  for (; in.last - first > kSingleRows<S>; first += L) {
    transform_block<T, L>(plan, in, first, std::min<int64_t>(L, in.last - first), scratch);
  }
  for (; first < in.last; ++first) transform_block<T, 1>(plan, in, first, 1, scratch);
}
