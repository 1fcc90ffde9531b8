// GEMM, then col2im, against the definition in double: random problems of every type and layout, and some by hand.
#include "kernels/gemm_col2im/gemm_col2im.h"

#include "testing/transposed_family.h"

namespace ortconv {
namespace {

using kernels::Op;
using test::Case;
using test::case_of;
using test::CaseMaker;
using test::Sizes;

struct Family {
  static constexpr auto takes = kernels::gemm_col2im::takes;
  static constexpr auto make_plan = kernels::gemm_col2im::make_plan;
  static constexpr auto scratch_bytes = kernels::gemm_col2im::scratch_bytes;
  static constexpr auto run = kernels::gemm_col2im::run;
};

bool is_taken(const Case& c) {
  if (!test::is_a_problem(c, DataType::kFloat)) return false;
  EXPECT(Family::takes(c.problem(DataType::kFloat)), "is not taken: ", c.describe());
  return true;
}

TEST(random_problems) {
  CaseMaker maker(31);
  int taken = 0;
  for (int i = 0; i < 3000 / test::kShare; ++i) {
    Case c = maker.make(static_cast<int>(maker.draw(1, i % 10 == 0 ? 6 : 3)));
    c.residual = false;
    const bool infinite = i % 4 == 0;
    if (infinite) c.attributes.activation = {};
    // Beyond what the maker draws.
    const int last = static_cast<int>(c.attributes.strides.size()) - 1, any = static_cast<int>(maker.draw(0, last));
    if (i % 3 == 0) c.attributes.strides[any] = maker.draw(1, 12);
    if (i % 5 == 0) c.attributes.dilations[any] = maker.draw(1, 12);
    if (!is_taken(c)) continue;
    ++taken;
    test::check_types<Family>(maker, c, infinite);
  }
  EXPECT(taken * test::kShare > 300, "only ", taken, " problems were taken");
}

const Sizes kSizes[] = {
    // plain products; src in place and not; few rows and many channels
    {{2, 300, 31, 5}, {300, 3, 1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 600, 7}, {600, 70, 1}, {1}, {1}, {0, 0}},
    {{1, 600, 40, 20}, {600, 40, 1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 600, 40, 20}, {600, 40, 1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1, true},
    {{1, 40, 9, 30}, {40, 8, 4, 4}, {4, 4}, {1, 1}, {0, 0, 0, 0}},
    {{1, 40, 9, 30}, {40, 8, 4, 4}, {4, 4}, {1, 1}, {1, 2, 3, 1}, 1, true},
    // whole pages from row to row: in place for few rows of weights, copied for many
    {{1, 70, 32, 64}, {70, 2, 2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}},
    {{1, 70, 32, 64}, {70, 9, 2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}},
    // overlapping taps
    {{2, 24, 17, 33}, {24, 5, 4, 4}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {{2, 24, 17, 33}, {24, 5, 4, 4}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 1, true},
    {{1, 30, 70, 40}, {30, 2, 4, 17}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 20, 6, 7, 8}, {20, 6, 3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}, 2},
    {{2, 33, 18, 15, 2}, {33, 19, 5, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}},
    {{1, 61, 2, 24, 6}, {61, 31, 1, 1, 7}, {1, 1, 1}, {1, 1, 5}, {0, 0, 0, 0, 0, 0}},
    // gaps: most residues, some, of the first axis
    {{1, 47, 174}, {47, 33, 2}, {14}, {7}, {4, 4}},
    {{1, 37, 39}, {37, 13, 3}, {4}, {1}, {1, 0}},
    {{1, 39, 29, 9}, {39, 14, 1, 1}, {2, 2}, {6, 6}, {0, 0, 0, 0}},
    {{1, 22, 6, 1}, {22, 8, 4, 4}, {8, 7}, {1, 1}, {0, 0, 0, 0}, 2},
    {{1, 22, 6, 1}, {22, 8, 4, 4}, {8, 7}, {1, 1}, {0, 0, 0, 0}, 2, true},
    {{1, 20, 19, 5}, {20, 7, 2, 3}, {4, 3}, {6, 2}, {2, 0, 0, 2}},
    {{1, 8, 140}, {8, 4, 3}, {12}, {3}, {3, 2}},
    // gaps between runs of slots
    {{1, 9, 3, 29}, {9, 5, 2, 7}, {3, 14}, {1, 1}, {0, 0, 0, 0}},
    {{2, 9, 3, 12}, {9, 5, 2, 5}, {2, 11}, {1, 1}, {1, 3, 0, 4}},
    {{1, 9, 3, 9}, {9, 5, 2, 4}, {3, 8}, {1, 1}, {0, 1, 0, 2}, 1, true},
    // sums that a list says where they go: of short lines, of single positions, of images, of runs; many slots of few j
    {{1, 30, 4, 6}, {30, 9, 3, 3}, {2, 2}, {1, 1}, {1, 0, 1, 0}},
    {{1, 7, 1, 1, 1}, {7, 70, 2, 2, 2}, {2, 2, 2}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}},
    {{5, 8, 1, 4}, {8, 83, 2, 2}, {2, 2}, {5, 5}, {1, 3, 0, 3}},
    {{7, 20, 1, 2}, {20, 33, 5, 3}, {3, 4}, {1, 1}, {0, 0, 0, 0}},
    {{1, 6, 3, 5}, {6, 8, 2, 2}, {3, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 75, 9, 4}, {75, 30, 1, 14}, {1, 12}, {1, 1}, {0, 2, 0, 3}},
    // sums of parts: of images, of rows of two vectors, of an inner axis with one position; panels across channels
    {{4, 72, 4, 4}, {72, 17, 3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {{1, 40, 13, 13}, {40, 20, 3, 3}, {1, 1}, {1, 1}, {1, 0, 1, 0}, 1, true},
    {{3, 20, 3, 4, 1}, {20, 9, 3, 3, 2}, {2, 1, 2}, {1, 1, 1}, {1, 1, 0, 0, 1, 0}},
    {{1, 64, 7, 7}, {64, 24, 5, 5}, {2, 2}, {1, 1}, {2, 2, 1, 1}, 2},
    {{1, 130, 7, 9}, {130, 30, 7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}},
    // thousands of taps, of which many meet nothing; single positions
    {{1, 5, 9}, {5, 1, 5000}, {1300}, {1}, {0, 100}},
    {{2, 4, 7}, {4, 2, 4600}, {9000}, {1}, {3, 5}, 2},
    {{1, 3, 40}, {3, 2, 4500}, {1}, {1}, {2000, 50}},
    {{1, 3, 5, 6}, {3, 2, 70, 66}, {9, 20}, {1, 2}, {3, 60, 8, 0}},
    {{1, 30, 300}, {30, 1, 8}, {5000}, {3}, {0, 0}},
    {{3, 90, 1, 1}, {90, 20, 4, 5}, {2, 3}, {1, 2}, {1, 0, 0, 1}},
    // far dilations
    {{1, 5, 500}, {5, 4, 3}, {1}, {4000}, {10, 0}},
    {{1, 3, 40, 3}, {3, 2, 2, 3}, {2, 3}, {900, 1}, {0, 1, 0, 0}},
    // sums of many channels; all channels of a tile at a time
    {{1, 2300, 61}, {2300, 30, 2}, {2}, {1}, {0, 1}},
    {{2, 2300, 9}, {2300, 30, 2}, {1}, {1}, {0, 1}},
    {{1, 20000, 3}, {20000, 2, 2}, {5000}, {5000}, {0, 0}},
    {{1, 17000, 20}, {17000, 1, 1}, {1}, {1}, {0, 0}},
    // several blocks of dst channels: copies of all tiles of src are kept for them, or of some
    {{2, 80, 20, 20}, {80, 100, 3, 3}, {2, 2}, {1, 1}, {1, 0, 0, 1}, 2, true},
    {{1, 400, 900}, {400, 40, 3}, {2}, {1}, {1, 1}},
    {{1, 400, 900}, {400, 40, 3}, {2}, {1}, {1, 1}, 1, true},
    // fewer items than threads, which share their tiles: of columns, rows, panels; sums that are products, in rows
    {{1, 300, 3, 4, 5}, {300, 1, 5, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 0, 1, 1, 2, 2}},
    {{1, 300, 3, 4, 5}, {300, 1, 5, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 0, 1, 1, 2, 2}, 1, true},
    {{1, 400, 33, 11}, {400, 3, 5, 5}, {1, 5}, {1, 1}, {2, 2, 2, 2}},
    {{1, 90, 700}, {90, 1, 24}, {1}, {3}, {0, 0}},
    {{5, 700, 1}, {700, 5, 79}, {79}, {1}, {0, 0}},
    {{1, 700, 3, 5}, {700, 1, 6, 7}, {10, 9}, {1, 1}, {0, 0, 0, 0}},
    {{6, 700, 1}, {700, 1, 600}, {2}, {1}, {30, 0}},
    {{2, 200, 3, 30}, {200, 2, 9, 9}, {1, 1}, {1, 1}, {2, 20, 2, 8}, 2},
    // pieces of the columns of a tile, which is read in place or copied
    {{1, 1100, 17, 21}, {1100, 2, 3, 3}, {1, 1}, {1, 1}, {0, 1, 1, 0}},
    {{1, 1100, 17, 21}, {1100, 5, 3, 3}, {2, 1}, {1, 1}, {0, 1, 1, 0}},
    {{3, 130, 900}, {130, 6, 15}, {2}, {1}, {3, 0}},
    {{3, 520, 12, 17}, {520, 14, 3, 3}, {2, 2}, {1, 1}, {1, 0, 1, 0}},
    // many groups
    {{1, 200, 12}, {200, 1, 3}, {2}, {1}, {1, 1}, 200},
    {{2, 60, 5, 7}, {60, 3, 2, 2}, {1, 2}, {1, 1}, {0, 0, 0, 0}, 60},
    // Few channels of many short lines.
    {{1, 30, 95, 7}, {30, 1, 4, 4}, {4, 4}, {5, 5}, {0, 0, 0, 0}, 2},
    {{2, 6, 60, 9}, {6, 2, 5, 3}, {2, 2}, {1, 1}, {0, 1, 0, 2}},
    {{1, 6, 60, 8}, {6, 3, 2, 3}, {6, 2}, {1, 1}, {1, 0, 0, 1}},
    {{1, 6, 5, 20, 10}, {6, 2, 3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {1, 0, 1, 0, 1, 1}},
    {{1, 6, 40, 13}, {6, 2, 9, 9}, {3, 9}, {1, 1}, {0, 2, 0, 3}, 1, true},
};

TEST(chosen_problems) {
  CaseMaker maker(32);
  int64_t at = 0;
  for (const Sizes& sizes : kSizes) {
    Case c = case_of(sizes);
    c.bias = ++at % 4 != 0;
    if (at % 3 == 0) c.attributes.activation = {0.25f, -60.0f, 90.0f};
    if (!is_taken(c)) continue;
    test::check_in_turns<Family>(maker, c, at);
  }
}

// Single taps whose sums the GEMM may round into dst: of images, of groups, of src that is copied, of many channels.
TEST(plain_products_of_16_bits) {
  CaseMaker maker(41);
  const Sizes plain[] = {
      {{2, 5, 61}, {5, 9, 1}, {1}, {1}, {0, 0}},       {{1, 14, 7, 9}, {14, 70, 1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
      {{2, 12, 100}, {12, 8, 1}, {1}, {1}, {0, 0}, 4}, {{1, 70, 23, 13}, {70, 90, 1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
      {{1, 1, 2000}, {1, 50, 1}, {1}, {1}, {0, 0}},    {{1, 1300, 130}, {1300, 7, 1}, {1}, {1}, {0, 0}},
  };
  for (const Sizes& sizes : plain) {
    Case c = case_of(sizes);
    for (const bool bias : {true, false}) {
      c.bias = bias;
      test::check<Family, Float16>(maker, c, DataType::kFloat16);
      test::check<Family, Bfloat16>(maker, c, DataType::kBfloat16);
    }
    test::check_threads<Family>(c);
  }
}

// A problem of one image whose numbers lie one after the other.
ConvProblem dense_problem(int64_t ic, int64_t oc, const std::vector<int64_t>& src, const std::vector<int64_t>& ker,
                          const std::vector<int64_t>& strides, const std::vector<int64_t>& pads,
                          const std::vector<int64_t>& dst) {
  ConvProblem p;
  p.ndims = static_cast<int>(src.size());
  p.mb = 1, p.ic = ic, p.oc = oc;
  p.src_c = p.wei_1 = p.dst_c = 1;
  for (int a = p.ndims - 1; a >= 0; --a) {
    p.src_size[a] = src[a], p.ker[a] = ker[a], p.stride[a] = strides[a], p.pad[a] = pads[a], p.dst_size[a] = dst[a];
    p.dilation[a] = 1;
    p.src_x[a] = p.src_c, p.wei_x[a] = p.wei_1, p.dst_x[a] = p.dst_c;
    p.src_c *= src[a], p.wei_1 *= ker[a], p.dst_c *= dst[a];
  }
  p.src_n = ic * p.src_c, p.wei_0 = oc * p.wei_1, p.dst_n = oc * p.dst_c;
  return p;
}

// Computes problems of the same weights with one plan, in this order.
void expect_one_plan_for(const std::vector<ConvProblem>& problems) {
  CaseMaker maker(36);
  const ConvProblem& first = problems[0];
  const std::vector<float> wei = maker.values<float>(first.ic * first.wei_0);
  const auto plan = Family::make_plan(first, DataType::kFloat, wei.data(), ArchFlags::host());
  for (size_t i = 0; i < problems.size(); ++i) {
    const ConvProblem& p = problems[i];
    const std::vector<float> src = maker.values<float>(p.src_n);
    std::vector<float> found(static_cast<size_t>(p.dst_n));
    std::vector<char> scratch(Family::scratch_bytes(*plan, p, 1) + 64);
    void* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    Family::run(*plan, p, src.data(), wei.data(), nullptr, found.data(), aligned, serial());
    const std::vector<float> wanted = test::oracle<float>(p, Op::kConvTranspose, src.data(), wei.data(), nullptr);
    EXPECT(test::first_difference(found, wanted) < 0, "problem ", i);
  }
}

// What a plan keeps of one problem is not taken for another's: here the first position that is multiplied differs, as
// all are where few are superfluous, though dst and the number of positions are the same.
TEST(a_plan_computes_one_size_after_the_other) {
  const std::vector<int64_t> ker{2, 2, 2}, strides{4, 4, 4}, pads{0, 4, 0}, dst{12, 20, 16};
  const ConvProblem first = dense_problem(3, 5, {3, 5, 4}, ker, strides, pads, dst);
  expect_one_plan_for({first, dense_problem(3, 5, {3, 6, 5}, ker, strides, pads, dst),
                       dense_problem(3, 5, {3, 5, 4}, ker, strides, {0, 3, 0}, dst),
                       dense_problem(3, 5, {3, 5, 4}, ker, strides, pads, {12, 19, 16}), first});
  // More taps reach the second dst, so that its sums are formed of parts, though all that is listed is the same.
  const ConvProblem few = dense_problem(9, 2, {3}, {30}, {10}, {0}, {11});
  expect_one_plan_for({few, dense_problem(9, 2, {3}, {30}, {10}, {0}, {20}), few});
}

// A large src: many panels read a copy, and few read it in place, in longer runs.
TEST(what_lies_beyond_l2_of_any_cpu) {
  CaseMaker maker(40);
  for (const int64_t oc : {120, 20}) {
    const ConvProblem p = dense_problem(300, oc, {900}, {1}, {1}, {0}, {900});
    const std::vector<float> src = maker.values<float>(p.src_n), wei = maker.values<float>(300 * oc);
    const std::vector<float> wanted = test::oracle<float>(p, Op::kConvTranspose, src.data(), wei.data(), nullptr);
    for (const bool slow : {false, true}) {
      ArchFlags arch = ArchFlags::host();
      arch.slow_l3 = slow;
      const std::vector<float> found =
          test::result<Family, float>(DataType::kFloat, p, src, wei, nullptr, true, serial(), nullptr, arch);
      EXPECT(test::first_difference(found, wanted) < 0, oc, " channels, slow: ", slow);
    }
  }
}

TEST(results_beyond_the_caches) {
  CaseMaker maker(37);
  Case c = case_of({{1, 2, 40, 40}, {2, 7, 2, 2}, {32, 32}, {1, 1}, {0, 0, 0, 0}});
  for (const bool bias : {true, false}) {
    c.bias = bias;
    test::check<Family, float>(maker, c, DataType::kFloat);
  }
  // Long lines with few taps, long rows, single numbers, images that share tiles, and 16-bit types.
  test::check<Family, float>(maker, case_of({{1, 1, 30, 60}, {1, 1, 2, 2}, {20, 200}, {1, 1}, {0, 0, 0, 0}}),
                             DataType::kFloat);
  test::check<Family, float>(maker, case_of({{1, 1, 30000}, {1, 8, 2}, {28}, {3}, {1, 0}}), DataType::kFloat);
  test::check<Family, float>(maker, case_of({{430, 1, 5, 4}, {1, 40, 1, 2}, {4, 5}, {1, 1}, {0, 0, 0, 0}}),
                             DataType::kFloat);
  test::check<Family, Float16>(maker, case_of({{1, 1, 60, 61}, {1, 7, 1, 2}, {24, 23}, {1, 1}, {0, 0, 0, 0}}),
                               DataType::kFloat16);
}

TEST(lines_beyond_the_caches) {
  CaseMaker maker(39);
  const Sizes dense{{1, 2, 230, 221}, {2, 9, 4, 4}, {4, 4}, {1, 1}, {1, 2, 1, 1}};
  const Sizes sizes[] = {
      dense,
      // gaps that are interleaved, or lie between runs, single slots and lines of several positions
      {{1, 1, 260, 400}, {1, 2, 2, 2}, {4, 8}, {1, 1}, {0, 1, 0, 0}},
      {{1, 1, 900, 100}, {1, 3, 2, 10}, {2, 12}, {1, 1}, {0, 3, 0, 0}},
      {{1, 3, 30000}, {3, 9, 4}, {24}, {5}, {2, 0}},
      {{1, 2, 330, 600}, {2, 11, 2, 2}, {3, 1}, {1, 1}, {0, 0, 1, 0}},
      // slots in order without gaps, and so many that a few j of them fill what is put together
      {{1, 2, 70, 90}, {2, 10, 12, 12}, {12, 12}, {1, 1}, {0, 5, 0, 1}},
      {{1, 2, 707}, {2, 9, 1000}, {1000}, {1}, {3, 5}},
      {{1, 2, 509}, {2, 9, 800}, {1400}, {1}, {0, 5}},
  };
  bool bias = false;
  for (const Sizes& each : sizes) {
    Case c = case_of(each);
    c.bias = bias = !bias;
    if (bias) c.attributes.activation = {0.25f, -60.0f, 90.0f};
    test::check<Family, float>(maker, c, DataType::kFloat);
  }
  test::check<Family, double>(maker, case_of(dense), DataType::kDouble);
  test::check<Family, Float16>(maker, case_of({{1, 1, 340, 310}, {1, 9, 4, 4}, {4, 4}, {1, 1}, {0, 0, 0, 0}}),
                               DataType::kFloat16);
  test::check<Family, Bfloat16>(maker, case_of({{1, 1, 260, 405}, {1, 4, 2, 2}, {4, 8}, {1, 1}, {0, 0, 0, 0}}),
                                DataType::kBfloat16);
  test::check_threads<Family>(case_of(dense));
}

TEST(threads_do_not_change_a_sum) {
  for (const Sizes& sizes : kSizes) test::check_threads<Family>(case_of(sizes));
}

// Neither what lies between taps nor padding is anywhere in memory.
TEST(memory_does_not_grow_with_strides_dilations_and_pads) {
  constexpr int64_t kFar = int64_t{1} << 28;
  const Sizes far[] = {
      {{1, 1, 10}, {1, 1, 3}, {1}, {kFar}, {kFar, kFar}},
      {{1, 2, 3}, {2, 5, 4}, {kFar}, {kFar}, {kFar, 4 * kFar - 6}},
      {{1, 40, 2, 2}, {40, 40, 2, 2}, {kFar, 1}, {1, kFar}, {kFar - 2, kFar - 1, 0, 0}},
      {{1, 2, 9, 9}, {2, 2, 900, 5}, {900, 1}, {1, 1}, {3000, 0, 5099, 0}},
  };
  CaseMaker maker(34);
  for (const Sizes& sizes : far) {
    const Case c = case_of(sizes);
    const ConvProblem p = c.problem(DataType::kFloat);
    const std::vector<float> src = maker.values<float>(test::count_of(c.x));
    const std::vector<float> wei = maker.values<float>(test::count_of(c.w));
    const std::vector<float> expected = test::oracle<float>(p, Op::kConvTranspose, src.data(), wei.data(), nullptr);
    EXPECT(expected.size() < 10000, expected.size(), " outputs, ", c.describe());
    size_t bytes = 0;
    const std::vector<float> dst =
        test::result<Family, float>(DataType::kFloat, p, src, wei, nullptr, true, serial(), &bytes);
    EXPECT(bytes < 4 << 20, bytes, " bytes, ", c.describe());
    EXPECT(test::first_difference(dst, expected) < 0, c.describe());
  }
}

TEST(sums_are_as_exact_as_the_usual_ones) {
  for (const Sizes& sizes :
       {Sizes{{1, 4000, 24}, {4000, 2, 1}, {1}, {1}, {0, 0}}, Sizes{{1, 300, 20}, {300, 2, 9}, {1}, {1}, {0, 0}},
        Sizes{{1, 20000, 24}, {20000, 1, 1}, {1}, {1}, {0, 0}}}) {
    test::expect_usual_errors<Family>(sizes);
  }
}

}  // namespace
}  // namespace ortconv
