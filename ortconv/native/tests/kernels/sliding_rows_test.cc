// Rows that slide, against the definition in double: random problems of every type, and some by hand.
#include "kernels/sliding_rows/sliding_rows.h"

#include <cmath>

#include "testing/transposed_family.h"

namespace ortconv {
namespace {

namespace sliding_rows = kernels::sliding_rows;
using sliding_rows::Operand;
using test::Case;
using test::case_of;
using test::CaseMaker;
using test::Sizes;

template <Operand kSliding>
struct Family {
  static constexpr auto make_plan = sliding_rows::make_plan<kSliding>;
  static constexpr auto scratch_bytes = sliding_rows::scratch_bytes;
  static constexpr auto run = sliding_rows::run;
};
using Src = Family<Operand::kSrc>;
using Weights = Family<Operand::kWeights>;

bool is_taken(const Case& c, Operand sliding) {
  return test::is_a_problem(c, DataType::kFloat) && sliding_rows::takes(c.problem(DataType::kFloat), sliding);
}

TEST(random_problems) {
  CaseMaker maker(51);
  int src = 0, weights = 0;
  for (int i = 0; i < 1200 / test::kShare; ++i) {
    Case c = maker.make(static_cast<int>(maker.draw(1, i % 10 == 0 ? 6 : 3)));
    c.residual = false;
    (i % 2 == 0 ? c.attributes.strides : c.attributes.dilations).back() = 1;
    if (is_taken(c, Operand::kSrc)) ++src, test::check_types<Src>(maker, c);
    if (is_taken(c, Operand::kWeights)) ++weights, test::check_types<Weights>(maker, c);
  }
  EXPECT(src * test::kShare > 200 && weights * test::kShare > 200, src, " and ", weights, " problems were taken");
}

const Sizes kSizes[] = {
    // rows of several blocks; of a few numbers; paddings beyond the windows
    {{1, 3, 2300}, {3, 2, 40}, {1}, {1}, {0, 0}},
    {{2, 2, 40}, {2, 5, 2300}, {1}, {1}, {17, 4}},
    {{1, 4, 3}, {4, 3, 500}, {1}, {1}, {250, 250}},
    {{1, 2, 30}, {2, 3, 7}, {1}, {5}, {31, 2}},
    {{3, 2, 30}, {2, 9, 70}, {13}, {1}, {5, 60}},
    // several axes, strides and dilations on the others
    {{2, 3, 9, 20}, {3, 6, 8, 5}, {2, 1}, {1, 2}, {3, 2, 4, 1}},
    {{1, 4, 5, 9, 6}, {4, 7, 3, 2, 20}, {1, 3, 2}, {2, 2, 1}, {1, 0, 3, 2, 1, 5}},
    {{1, 2, 3, 3, 4, 8}, {2, 2, 2, 3, 3, 17}, {2, 1, 2, 1}, {1, 2, 3, 1}, {1, 1, 0, 2, 0, 1, 2, 2}},
    // groups, one channel in each, and rows of tiles that are images
    {{5, 6, 4, 21}, {6, 1, 3, 9}, {1, 1}, {1, 1}, {1, 1, 2, 2}, 6},
    {{7, 6, 21}, {6, 5, 33}, {2}, {1}, {3, 3}, 2},
    // sums in pieces: of channels, of rows and of numbers of a row
    {{1, 64, 50}, {64, 3, 30}, {1}, {1}, {0, 0}},
    {{1, 8, 30, 40}, {8, 2, 25, 30}, {1, 1}, {1, 1}, {4, 4, 4, 4}},
    {{1, 2, 3000}, {2, 1, 3000}, {1}, {1}, {1000, 1000}},
    // and of pieces: many channels and taps
    {{2, 400, 40}, {400, 3, 60}, {1}, {1}, {9, 5}},
    {{1, 300, 6, 12}, {300, 2, 9, 9}, {1, 1}, {1, 1}, {4, 4, 4, 4}},
    {{1, 300, 6, 12}, {300, 2, 9, 9}, {1, 1}, {1, 1}, {4, 4, 4, 4}, 1, true},
    {{5, 300, 50}, {300, 1, 50}, {1}, {1}, {20, 20}},
    // many channels of a dst that no cache holds
    {{1, 1, 60, 40}, {1, 460, 2, 2}, {2, 1}, {1, 1}, {1, 1, 1, 1}},
    // channels last
    {{2, 5, 6, 30}, {5, 9, 3, 18}, {2, 1}, {1, 1}, {1, 1, 1, 1}, 1, true},
    {{2, 5, 40}, {5, 3, 20}, {1}, {1}, {1, 1}, 1, true},
};

TEST(chosen_problems) {
  CaseMaker maker(52);
  int64_t at = 0;
  for (const Sizes& sizes : kSizes) {
    Case c = case_of(sizes);
    c.bias = ++at % 4 != 0;
    if (at % 3 == 0) c.attributes.activation = {0.25f, -60.0f, 90.0f};
    EXPECT(is_taken(c, Operand::kSrc) || is_taken(c, Operand::kWeights), c.describe());
    if (is_taken(c, Operand::kSrc)) test::check_in_turns<Src>(maker, c, at);
    if (is_taken(c, Operand::kWeights)) test::check_in_turns<Weights>(maker, c, at);
  }
}

TEST(sums_are_as_exact_as_the_usual_ones) {
  for (const Sizes& sizes :
       {Sizes{{1, 1200, 60}, {1200, 2, 200}, {1}, {1}, {50, 50}}, Sizes{{1, 300, 20}, {300, 2, 9}, {1}, {1}, {0, 0}},
        Sizes{{1, 700, 100}, {700, 2, 30}, {1}, {1}, {0, 0}}}) {
    test::expect_usual_errors<Src>(sizes);
    test::expect_usual_errors<Weights>(sizes);
  }
}

TEST(threads_do_not_change_a_sum) {
  for (const Sizes& sizes : kSizes) {
    const Case c = case_of(sizes);
    if (is_taken(c, Operand::kSrc)) test::check_threads<Src>(c);
    if (is_taken(c, Operand::kWeights)) test::check_threads<Weights>(c);
  }
}

TEST(src_that_is_not_finite_is_left_to_others_where_weights_slide) {
  const Case c = case_of({{1, 2, 9}, {2, 3, 20}, {2}, {1}, {0, 0}});
  const ConvProblem p = c.problem(DataType::kFloat);
  const std::vector<float> wei(test::count_of(c.w), 1.0f);
  const auto plan = Weights::make_plan(p, DataType::kFloat, wei.data(), ArchFlags::host());
  void* scratch = ::operator new(sliding_rows::scratch_bytes(*plan, p, 1), std::align_val_t(64));
  std::vector<float> dst(test::count_of_dst(p));
  for (const float value : {1.0f, INFINITY, -INFINITY, NAN}) {
    std::vector<float> src(test::count_of(c.x), 2.0f);
    src[10] = value;
    const bool ran = sliding_rows::run(*plan, p, src.data(), nullptr, nullptr, dst.data(), scratch, serial());
    EXPECT(ran == std::isfinite(value), "with ", value);
  }
  ::operator delete(scratch, std::align_val_t(64));
}

TEST(strides_and_dilation_together_are_not_taken) {
  const ConvProblem p = case_of({{1, 2, 9}, {2, 3, 4}, {2}, {3}, {0, 0}}).problem(DataType::kFloat);
  EXPECT(!sliding_rows::takes(p, Operand::kSrc) && !sliding_rows::takes(p, Operand::kWeights), "taken");
}

}  // namespace
}  // namespace ortconv
