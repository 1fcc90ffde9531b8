#include <algorithm>

#include "kernels/fill.h"
#include "kernels/gemm_col2im/line_writer.h"

namespace ortconv::kernels::gemm_col2im {
namespace {

template <class T>
class Store {
 public:
  using Cell = Sum<T>;

  Store(const Results<T>& results, const Part& part, char* slice, const std::vector<ExpandPart>* steps);
  void store_all();

 private:
  // Calls fn(sums) for each row of channels: of a position, or the only one.
  template <class Fn>
  void for_each_position(Fn fn) const {
    const int64_t positions = geo_.by_rows ? part_.x_count * geo_.inner_x : 1;
    for (int64_t i = 0; i < positions; ++i) fn(sums_ + i * geo_.j_step);
  }
  void finish_in_dst() const;
  void prepare_gaps();
  void add_bias();
  void activate();
  void store_steps();

  const Results<T>& results_;
  const Geometry& geo_;
  const Part& part_;
  char* const slice_;
  const int64_t dst_c_;
  Cell *sums_, *bias_, *gap_;
  const std::vector<ExpandPart>* parts_;  // that write a channel; null where it is written otherwise
  const Cell* left_;                      // bias that is left to add
  T* dst_;
};

template <class T>
Store<T>::Store(const Results<T>& results, const Part& part, char* slice, const std::vector<ExpandPart>* steps)
    : results_(results),
      geo_(results.geometry),
      part_(part),
      slice_(slice),
      dst_c_(results.problem.dst_c),
      sums_(at<Cell>(slice, geo_.sums)),
      bias_(at<Cell>(slice, geo_.bias)),
      gap_(at<Cell>(slice, geo_.gap)),
      parts_(steps),
      left_(nullptr) {
  if (geo_.by_rows) {
    sums_ = at<Cell>(slice, geo_.transposed) + part.channel * results.plan.taps % geo_.panel_height;
  }
  const int64_t channel = part.group * results.plan.oc + part.channel;
  dst_ = results.dst + part.image * results.problem.dst_n + channel * dst_c_ +
         geo_.axis[0].dst_of(part.j_begin) * geo_.axis[0].dst_x;
  if (results.bias != nullptr) {
    results.kernels.load(results.bias + channel, 1, part.channels, bias_);
    left_ = bias_;
  }
}

// Adds the bias to all sums.
template <class T>
void Store<T>::add_bias() {
  for_each_position([&](Cell* sums) {
    for (int64_t c = 0; c < part_.channels; ++c, sums += geo_.channel_size) {
      for (int64_t i = 0; i < geo_.channel_size; ++i) sums[i] += left_[c];
    }
  });
  left_ = nullptr;
}

// Applies the activation to all sums, with the bias.
template <class T>
void Store<T>::activate() {
  const Activation& activation = results_.problem.activation;
  const int64_t size = geo_.channel_size;
  if (!geo_.by_rows || activation.is_identity()) {
    left_ = im2col::activate(results_.kernels, results_.problem, sums_, size, part_.channels, size, left_);
    return;
  }
  if constexpr (!std::is_same_v<T, double>) {
    if (left_ != nullptr) add_bias();
    for_each_position(
        [&](Cell* sums) { results_.kernels.activate.template run<T>(activation, 0.0f, part_.channels * size, sums); });
  }
}

// Writes channels in steps: several together, where they have the same in gaps.
template <class T>
void Store<T>::store_steps() {
  const int first = geo_.first_in_steps;
  const int64_t numbers = dst_length(geo_, part_, first) * geo_.inner_dst;
  const int64_t images = first == 0 ? 1 : dst_length(geo_, part_, 0);
  const int64_t together = geo_.together(results_.bias != nullptr);
  const auto expand = results_.kernels.expand.template to<T>();
  ExpandArgs<T> args{nullptr, nullptr, 0, -Cell(), Cell(), nullptr, 0};
  if (left_ != nullptr && together > 1) add_bias();
  const bool far = geo_.writes_past_caches();
  PastCaches<T> past_caches(results_.kernels.write_lines, at<T>(slice_, geo_.staged));
  for (int64_t image = 0; image < images; ++image) {
    for (int64_t c = 0; c < part_.channels; c += together) {
      args.src = sums_ + c * geo_.channel_size + image * geo_.inner_j * geo_.j_step;
      if (left_ != nullptr) args.bias = left_[c];
      if (geo_.has_gaps) args.gap = gap_[c];
      T gap, *out = dst_ + c * dst_c_ + image * geo_.axis[0].dst_x;
      round_to(&gap, args.gap);
      int64_t left = std::min(together, part_.channels - c) * numbers;
      for (auto part = parts_->begin(); left > 0; ++part, out += args.size, left -= args.size) {
        args.size = std::min(left, part->rows * kExpandWidth);
        if (far && part->is_gap()) {
          past_caches.fill(out, args.size, gap);
          continue;
        }
        args.steps = part->steps.data(), args.num_steps = static_cast<int64_t>(part->steps.size());
        args.dst = far ? past_caches.room(out) : out;
        expand(args);
        if (far) past_caches.add(args.size);
      }
    }
  }
  past_caches.finish();
}

// Adds the bias to sums that are in dst, and activates them. Those that the GEMM rounded have their bias.
template <class T>
void Store<T>::finish_in_dst() const {
  if (!std::is_same_v<T, Cell>) return;
  const int64_t count = part_.j_count * geo_.inner_j;
  for (int64_t c = 0; c < part_.channels; ++c) {
    T* row = dst_ + c * dst_c_;
    if constexpr (std::is_same_v<T, float>) {
      if (!results_.problem.activation.is_identity()) {
        results_.kernels.activate.template run<T>(results_.problem.activation, left_ == nullptr ? 0 : left_[c], count,
                                                  row);
        continue;
      }
    }
    for (int64_t i = 0; left_ != nullptr && i < count; ++i) row[i] = with_bias<T>(row[i], left_[c]);
  }
}

// Computes what no tap reaches, and the zeros that are interleaved.
template <class T>
void Store<T>::prepare_gaps() {
  for (int64_t c = 0; c < part_.channels; ++c) {
    gap_[c] = left_ == nullptr ? Cell() : left_[c];
    std::fill_n(sums_ + c * geo_.channel_size + geo_.zeros, geo_.num_zeros, Cell());
  }
  if constexpr (!std::is_same_v<T, double>) {
    if (const Activation& activation = results_.problem.activation; !activation.is_identity()) {
      results_.kernels.activate.template run<T>(activation, 0.0f, part_.channels, gap_);
    }
  }
}

template <class T>
void Store<T>::store_all() {
  if (geo_.in_dst) return finish_in_dst();
  if (geo_.has_gaps) prepare_gaps();
  activate();
  if (parts_ != nullptr) return store_steps();
  write_lines(results_, part_, PartSums<T>{sums_, left_, gap_, dst_}, slice_);
}

}  // namespace

template <class T>
void store_sums(const Results<T>& results, const Part& part, char* slice, const std::vector<ExpandPart>* steps) {
  Store<T>(results, part, slice, steps).store_all();
  if (results.geometry.lies_far || results.geometry.stages_lines) finish_past_caches();
}

#define INSTANTIATE(T) template void store_sums(const Results<T>&, const Part&, char*, const std::vector<ExpandPart>*);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels::gemm_col2im
