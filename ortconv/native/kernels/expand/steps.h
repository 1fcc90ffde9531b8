// Lists the steps of ExpandArgs from runs of sums.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/expand/expand.h"

namespace ortconv::kernels {

constexpr int64_t kNearRows = 256;  // that L1 holds
constexpr int64_t kWideGap = 32;    // rows

class ExpandSteps {
 public:
  // Sums from `sum` on, so many, go to the numbers of dst from `at` on. Runs come in the order of dst.
  void add(int64_t at, int64_t sum, int64_t count) {
    while (count > 0) {
      const int64_t place = at % kExpandWidth, now = std::min(count, kExpandWidth - place);
      go_to(at / kExpandWidth);
      add_to_row(static_cast<uint16_t>(((1u << now) - 1) << place), sum, now);
      at += now, sum += now, count -= now;
    }
  }

  // The steps that write `size` numbers: where most runs are a single number, these are written one by one.
  std::vector<ExpandStep> finish(int64_t size) {
    go_to((size + kExpandWidth - 1) / kExpandWidth);
    if (2 * numbers_ < 3 * runs_) return singles();
    return std::move(steps_);
  }

 private:
  // Goes on to a row, if it is another one: with gaps up to there.
  void go_to(int64_t row) {
    if (row == row_) return;
    if (num_runs_ > 0) steps_.back().kind = ExpandStep::kLast, ++row_;
    num_runs_ = 0;
    if (row > row_) steps_.push_back({static_cast<int32_t>(row - row_), 0, ExpandStep::kFill});
    row_ = row;
  }

  void add_to_row(uint16_t mask, int64_t sum, int64_t count) {
    numbers_ += count;
    for (int i = 0; i < num_runs_; ++i) {
      if (next_[i] != sum) continue;
      steps_[steps_.size() - static_cast<size_t>(num_runs_ - i)].mask |= mask;
      next_[i] += count;
      return;
    }
    next_[num_runs_++] = sum + count;
    steps_.push_back({static_cast<int32_t>(sum), mask, ExpandStep::kMore});
    ++runs_;
  }

  // The same row by row: as many as L1 holds are filled, and then each of their numbers is written. Wide gaps stay.
  std::vector<ExpandStep> singles() const {
    std::vector<ExpandStep> all;
    size_t filled = 0;  // the step that fills the present rows
    int64_t row = 0;    // of these
    const auto begin_row = [&] {
      if (row % kNearRows == 0) row = 0, filled = all.size(), all.push_back({0, 0, ExpandStep::kFill});
      ++all[filled].src;
    };
    bool begins = true;
    for (const ExpandStep& step : steps_) {
      if (step.kind == ExpandStep::kFill && step.src >= kWideGap) {
        all.push_back(step);
        row = 0;
        continue;
      }
      if (step.kind == ExpandStep::kFill) {
        for (int64_t i = 0; i < step.src; ++i, ++row) begin_row();
        continue;
      }
      if (begins) begin_row();
      int32_t sum = step.src;
      for (int64_t i = 0; i < kExpandWidth; ++i) {
        if ((step.mask >> i & 1) == 0) continue;
        all.push_back({sum++, static_cast<uint16_t>(row * kExpandWidth + i), ExpandStep::kSingle});
      }
      begins = step.kind == ExpandStep::kLast;
      if (begins) ++row;
    }
    return all;
  }

  std::vector<ExpandStep> steps_;
  int64_t row_ = 0, runs_ = 0, numbers_ = 0;
  int num_runs_ = 0;            // steps of the row
  int64_t next_[kExpandWidth];  // the sums that would go on with them
};

// Steps that write some rows after each other.
struct ExpandPart {
  std::vector<ExpandStep> steps;
  int64_t rows;

  bool is_gap() const { return steps.size() == 1 && steps[0].kind == ExpandStep::kFill; }
};

// The same steps in parts of at most kNearRows, and wide gaps, which are parts of their own.
inline std::vector<ExpandPart> cut_steps(const std::vector<ExpandStep>& steps) {
  std::vector<ExpandPart> parts;
  bool is_open = false;  // the last part takes more rows
  for (size_t i = 0; i < steps.size(); ++i) {
    const ExpandStep& step = steps[i];
    const bool fills = step.kind == ExpandStep::kFill, is_wide = fills && step.src >= kWideGap;
    const bool singles_follow = i + 1 < steps.size() && steps[i + 1].kind == ExpandStep::kSingle;
    // Single numbers go where the fill before them goes, and all steps of a row together.
    const bool goes_on = step.kind == ExpandStep::kSingle || (i > 0 && steps[i - 1].kind == ExpandStep::kMore);
    const int64_t least_rows = fills ? step.src : 1;
    if (!goes_on && (!is_open || is_wide || parts.back().rows + least_rows > kNearRows)) {
      parts.push_back({{}, 0});
      is_open = singles_follow || !is_wide;
    }
    parts.back().steps.push_back(step);
    if (fills || step.kind == ExpandStep::kLast) parts.back().rows += least_rows;
  }
  return parts;
}

}  // namespace ortconv::kernels
