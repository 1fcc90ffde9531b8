// Windows that do not overlap, against the definition in double: random problems of every type, and some by hand.
#include "kernels/disjoint_windows/disjoint_windows.h"

#include <algorithm>

#include "testing/transposed_family.h"

namespace ortconv {
namespace {

using test::Case;
using test::case_of;
using test::CaseMaker;
using test::Sizes;

struct Family {
  static constexpr auto make_plan = kernels::disjoint_windows::make_plan;
  static constexpr auto scratch_bytes = kernels::disjoint_windows::scratch_bytes;
  static constexpr auto run = kernels::disjoint_windows::run;
};

bool is_taken(const Case& c) {
  if (!test::is_a_problem(c, DataType::kFloat)) return false;
  const ConvProblem p = c.problem(DataType::kFloat);
  return kernels::disjoint_windows::takes(p) && kernels::disjoint_windows::can_run(p);
}

TEST(random_problems) {
  CaseMaker maker(41);
  int taken = 0;
  for (int i = 0; i < 4000 / test::kShare; ++i) {
    Case c = maker.make(static_cast<int>(maker.draw(1, i % 10 == 0 ? 6 : 3)));
    c.residual = false;
    const bool infinite = i % 4 == 0;
    if (infinite) c.attributes.activation = {};
    for (size_t a = 0; a < c.attributes.strides.size(); ++a) {
      const int64_t extent = (c.w[a + 2] - 1) * c.attributes.dilations[a] + 1;
      c.attributes.strides[a] = std::max(extent, extent + maker.draw(-6, 9));
    }
    if (!is_taken(c)) continue;
    ++taken;
    test::check_types<Family>(maker, c, infinite);
  }
  EXPECT(taken * test::kShare > 300, "only ", taken, " problems were taken");
}

const Sizes kSizes[] = {
    // no gaps; paddings that cut windows, and whole ones
    {{2, 40, 9, 30}, {40, 8, 4, 4}, {4, 4}, {1, 1}, {0, 0, 0, 0}},
    {{1, 40, 9, 30}, {40, 8, 4, 4}, {4, 4}, {1, 1}, {1, 2, 3, 1}},
    {{1, 9, 12, 10}, {9, 5, 3, 5}, {3, 5}, {1, 1}, {7, 11, 4, 6}},
    {{1, 300, 41}, {300, 3, 100}, {100}, {1}, {30, 60}},
    // gaps on some axes and on all; taps apart
    {{1, 47, 174}, {47, 33, 2}, {14}, {7}, {4, 4}},
    {{2, 22, 6, 1}, {22, 8, 4, 4}, {8, 7}, {1, 1}, {0, 0, 0, 0}, 2},
    {{1, 5, 7, 6, 9}, {5, 3, 2, 1, 3}, {2, 3, 9}, {1, 1, 4}, {0, 1, 2, 0, 3, 1}},
    {{1, 20, 19, 5}, {20, 7, 2, 3}, {14, 13}, {6, 2}, {2, 0, 0, 2}},
    // long rows of taps that lie apart, some of them cut; few positions of many channels
    {{1, 6, 8}, {6, 5, 29}, {90}, {3}, {40, 35}},
    {{1, 7, 3, 4}, {7, 4, 2, 13}, {5, 50}, {2, 4}, {1, 20, 1, 21}},
    {{2, 370, 3}, {370, 9, 4}, {13}, {3}, {2, 1}},
    // several blocks of channels, one of many taps each, and depths
    {{1, 600, 13}, {600, 70, 20}, {31}, {1}, {0, 0}},
    {{1, 4, 7}, {4, 2, 4600}, {9000}, {1}, {3, 5}, 2},
    {{3, 60, 5, 7}, {60, 3, 2, 2}, {2, 3}, {1, 1}, {0, 0, 0, 0}, 60},
};

TEST(chosen_problems) {
  CaseMaker maker(42);
  int64_t at = 0;
  for (const Sizes& sizes : kSizes) {
    Case c = case_of(sizes);
    c.bias = ++at % 4 != 0;
    if (at % 3 == 0) c.attributes.activation = {0.25f, -60.0f, 90.0f};
    EXPECT(is_taken(c), c.describe());
    test::check_in_turns<Family>(maker, c, at);
  }
}

TEST(gaps_beyond_the_caches) {
  CaseMaker maker(43);
  for (const Sizes& sizes : {Sizes{{1, 2, 40, 40}, {2, 7, 2, 2}, {32, 32}, {1, 1}, {0, 0, 0, 0}},
                             Sizes{{1, 2, 40, 40}, {2, 7, 3, 2}, {32, 32}, {2, 1}, {9, 1, 4, 30}},
                             Sizes{{1, 2, 4, 5, 6}, {2, 7, 2, 3, 1}, {16, 32, 32}, {1, 1, 1}, {1, 0, 3, 2, 0, 3}}}) {
    test::check<Family, float>(maker, case_of(sizes), DataType::kFloat);
  }
}

TEST(threads_do_not_change_a_sum) {
  for (const Sizes& sizes : kSizes) test::check_threads<Family>(case_of(sizes));
}

TEST(overlapping_windows_are_not_taken) {
  for (const Sizes& sizes :
       {Sizes{{1, 3, 8}, {3, 2, 3}, {2}, {1}, {0, 0}}, Sizes{{1, 3, 8, 8}, {3, 2, 2, 2}, {2, 2}, {1, 2}, {0, 0, 0, 0}},
        Sizes{{1, 3, 8}, {3, 2, 1}, {1}, {1}, {0, 0}}}) {
    EXPECT(!is_taken(case_of(sizes)), case_of(sizes).describe());
  }
}

}  // namespace
}  // namespace ortconv
