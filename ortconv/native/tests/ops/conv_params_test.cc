// Size and padding arithmetic against counting, and every refusal.
#include "ops/conv_params.h"

#include <algorithm>
#include <limits>
#include <random>

#include "testing/cases.h"
#include "testing/test.h"

namespace ortconv {
namespace {

using test::attributes;
using test::refusal;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max(), kMin = std::numeric_limits<int64_t>::min();

ConvProblem complete(const ConvAttributes& a, const Shape& x, const Shape& w, const Shape* bias = nullptr,
                     const std::vector<int64_t>* output_shape = nullptr) {
  check_attributes(a, DataType::kFloat);
  ConvProblem problem = weight_problem(a, w);
  complete_problem(a, x, bias, output_shape, &problem);
  return problem;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// One axis, found by counting positions one by one.
struct Axis {
  int64_t x, k, s, d, begin, end, extra;

  int64_t extent() const {
    int64_t last = 0;
    for (int64_t i = 1; i < k; ++i) last += d;
    return last + 1;
  }

  // Where the last tap of the last input falls, plus one.
  int64_t full() const {
    if (x == 0) return std::max<int64_t>(extent() - s, 0);
    int64_t position = 0;
    for (int64_t i = 1; i < x; ++i) position += s;
    return position + extent();
  }

  // Windows that start at a multiple of s and end inside `size`.
  int64_t windows(int64_t size) const {
    int64_t count = 0;
    while (count * s + extent() <= size) ++count;
    return count;
  }

  std::string describe() const {
    return test::describe("x ", x, " k ", k, " s ", s, " d ", d, " begin ", begin, " end ", end, " extra ", extra);
  }
};

template <class Fn>
void for_each_axis(Fn fn) {
  for (int64_t x : {0, 1, 2, 3, 5, 8})
    for (int64_t k : {1, 2, 3, 4})
      for (int64_t s : {1, 2, 3, 7})
        for (int64_t d : {1, 2, 3})
          for (int64_t begin : {0, 1, 3})
            for (int64_t end : {0, 1, 4})
              for (int64_t extra : {0, 1, 5}) fn(Axis{x, k, s, d, begin, end, extra});
}

TEST(conv_transpose_sizes) {
  for_each_axis([](const Axis& axis) {
    ConvAttributes a = attributes(ConvOp::kConvTranspose, 1);
    a.strides = {axis.s}, a.dilations = {axis.d}, a.pads = {axis.begin, axis.end}, a.output_padding = {axis.extra};
    const int64_t size = axis.full() + axis.extra - axis.begin - axis.end;
    const auto run = [&] { return complete(a, {1, 1, axis.x}, {1, 1, axis.k}); };
    if (size < 0) {
      EXPECT(contains(refusal(run), "is negative"), axis.describe());
      return;
    }
    const ConvProblem p = run();
    EXPECT(p.dst_size[0] == size && p.pad[0] == axis.begin, axis.describe(), ": ", p.dst_size[0], " ", p.pad[0]);
  });
}

TEST(conv_transpose_to_shape_sizes) {
  for_each_axis([](const Axis& axis) {
    const int64_t requested = axis.end * 3;  // unrelated to the rest
    const std::vector<int64_t> output_shape = {requested};
    ConvAttributes a = attributes(ConvOp::kConvTransposeToShape, 1);
    a.strides = {axis.s}, a.dilations = {axis.d}, a.output_padding = {axis.extra};

    a.pads = {axis.begin};
    ConvProblem p = complete(a, {1, 1, axis.x}, {1, 1, axis.k}, nullptr, &output_shape);
    EXPECT(p.dst_size[0] == requested && p.pad[0] == axis.begin, axis.describe());

    // Take elements off in turn, first at the side that gets the odd one.
    int64_t more = 0, less = 0;
    for (int64_t left = axis.full() + axis.extra; left > requested; --left) ++(more > less ? less : more);
    a.pads = {0};
    a.auto_pad = AutoPad::kSameUpper;
    p = complete(a, {1, 1, axis.x}, {1, 1, axis.k}, nullptr, &output_shape);
    EXPECT(p.dst_size[0] == requested && p.pad[0] == less, axis.describe());
    a.auto_pad = AutoPad::kSameLower;
    p = complete(a, {1, 1, axis.x}, {1, 1, axis.k}, nullptr, &output_shape);
    EXPECT(p.dst_size[0] == requested && p.pad[0] == more, axis.describe());
  });
}

TEST(conv_sizes) {
  for_each_axis([](const Axis& axis) {
    ConvAttributes a = attributes(ConvOp::kConv, 1);
    a.strides = {axis.s}, a.dilations = {axis.d}, a.pads = {axis.begin, axis.end};
    const int64_t padded = axis.x + axis.begin + axis.end;
    const auto run = [&] { return complete(a, {1, 1, axis.x}, {1, 1, axis.k}); };
    if (axis.extent() > padded) {
      EXPECT(contains(refusal(run), "exceeds the padded input"), axis.describe());
    } else {
      const ConvProblem p = run();
      EXPECT(p.dst_size[0] == axis.windows(padded) && p.pad[0] == axis.begin, axis.describe());
    }

    // SAME: as many outputs as multiples of s in [0, x), padded until that many windows fit.
    int64_t size = 0, more = 0, less = 0;
    while (size * axis.s < axis.x) ++size;
    while (axis.windows(axis.x + more + less) < size) ++(more > less ? less : more);
    a.pads = {0, 0};
    a.auto_pad = AutoPad::kSameUpper;
    ConvProblem p = run();
    EXPECT(p.dst_size[0] == size && p.pad[0] == less, axis.describe(), ": ", p.dst_size[0], " ", p.pad[0]);
    a.auto_pad = AutoPad::kSameLower;
    p = run();
    EXPECT(p.dst_size[0] == size && p.pad[0] == more, axis.describe(), ": ", p.dst_size[0], " ", p.pad[0]);
  });
}

// Memory offsets by permutation: the element at Transpose(X, perm)[index] is at X[index'], index'[perm[j]] = index[j].
TEST(strides_follow_permutations) {
  const int perms[][4] = {{0, 1, 2, 3}, {0, 3, 1, 2}, {0, 2, 3, 1}, {3, 2, 1, 0}, {1, 2, 0, 3}, {2, 3, 1, 0}};
  for (const auto& perm : perms) {
    ConvAttributes a = attributes(ConvOp::kConvTranspose, 2);
    a.x_perm.assign(perm, perm + 4);
    a.w_perm = a.y_perm = a.x_perm;
    a.group = 2;
    const int64_t x[4] = {2, 4, 3, 5}, w[4] = {4, 3, 2, 3};  // logical: [N, C, ..] and [C, M/group, ..]
    Shape x_shape(4), w_shape(4);
    for (int j = 0; j < 4; ++j) x_shape[perm[j]] = x[j], w_shape[perm[j]] = w[j];
    const ConvProblem p = complete(a, x_shape, w_shape);
    EXPECT(p.mb == 2 && p.ic == 4 && p.oc == 6 && p.src_size[1] == 5 && p.ker[0] == 2, to_string(a.x_perm));

    const int64_t y[4] = {2, 6, 4, 7};  // stride 1: 3 + 2 - 1 and 5 + 3 - 1
    Shape y_shape(4);
    for (int j = 0; j < 4; ++j) y_shape[j] = y[perm[j]];
    EXPECT(output_dims(a, p) == y_shape, to_string(a.y_perm), " gives ", to_string(output_dims(a, p)));

    const auto dense = [](const Shape& shape, int axis) {
      int64_t stride = 1;
      for (int i = axis + 1; i < 4; ++i) stride *= shape[i];
      return stride;
    };
    const int64_t src[4] = {p.src_n, p.src_c, p.src_x[0], p.src_x[1]};
    const int64_t wei[4] = {p.wei_0, p.wei_1, p.wei_x[0], p.wei_x[1]};
    const int64_t dst[4] = {p.dst_n, p.dst_c, p.dst_x[0], p.dst_x[1]};
    for (int j = 0; j < 4; ++j) {
      EXPECT(src[j] == dense(x_shape, perm[j]), "src axis ", j, " of ", to_string(a.x_perm));
      EXPECT(wei[j] == dense(w_shape, perm[j]), "wei axis ", j, " of ", to_string(a.w_perm));
      EXPECT(dst[perm[j]] == dense(y_shape, j), "dst axis ", j, " of ", to_string(a.y_perm));
    }
  }
}

TEST(attribute_refusals) {
  struct Case {
    const char* text;  // part of the message
    void (*spoil)(ConvAttributes&);
  };
  const Case cases[] = {
      {"attribute strides=[]", [](ConvAttributes& a) { a.strides = {}; }},
      {"attribute strides=[1, 1, 1, 1, 1, 1, 1]", [](ConvAttributes& a) { a.strides.assign(7, 1); }},
      {"attribute strides=[1, 0]", [](ConvAttributes& a) { a.strides[1] = 0; }},
      {"attribute dilations=[0, 1]", [](ConvAttributes& a) { a.dilations[0] = 0; }},
      {"attribute dilations=[1]", [](ConvAttributes& a) { a.dilations = {1}; }},
      {"attribute dilations=[9223372036854775807, 1]", [](ConvAttributes& a) { a.dilations[0] = kMax; }},
      {"attribute group=0", [](ConvAttributes& a) { a.group = 0; }},
      {"attribute group=-9223372036854775808", [](ConvAttributes& a) { a.group = kMin; }},
      {"attribute x_perm=[0, 1, 2, 2]", [](ConvAttributes& a) { a.x_perm[3] = 2; }},
      {"attribute w_perm=[0, 1, 2]", [](ConvAttributes& a) { a.w_perm.pop_back(); }},
      {"attribute y_perm=[0, 1, 2, -1]", [](ConvAttributes& a) { a.y_perm[3] = -1; }},
      {"attribute pads=[0, 0, 0] is not valid; allowed: 4 ints", [](ConvAttributes& a) { a.pads.pop_back(); }},
      {"attribute pads=[0, -1, 0, 0]", [](ConvAttributes& a) { a.pads[1] = -1; }},
      {"attribute output_padding=[0]", [](ConvAttributes& a) { a.output_padding = {0}; }},
      {"attribute output_padding=[0, -9223372036854775808]", [](ConvAttributes& a) { a.output_padding[1] = kMin; }},
      {"attribute accumulation_type=11", [](ConvAttributes& a) { a.accumulation_type = 11; }},
  };
  for (const Case& c : cases) {
    ConvAttributes a = attributes(ConvOp::kConvTranspose, 2);
    EXPECT(refusal([&] { check_attributes(a, DataType::kFloat); }).empty(), "the unspoilt attributes");
    c.spoil(a);
    const std::string text = refusal([&] { check_attributes(a, DataType::kFloat); });
    EXPECT(contains(text, c.text) && contains(text, "allowed: "), c.text, " got: ", text);
  }
  ConvAttributes same = attributes(ConvOp::kConv, 1);
  same.auto_pad = AutoPad::kSameLower;
  same.pads = {0, 1};
  EXPECT(contains(refusal([&] { check_attributes(same, DataType::kFloat); }), "attribute pads=[0, 1]"),
         "pads and SAME");
  ConvAttributes to_shape = attributes(ConvOp::kConvTransposeToShape, 1);
  to_shape.pads = {0, 0};
  EXPECT(contains(refusal([&] { check_attributes(to_shape, DataType::kFloat); }), "attribute pads_begin=[0, 0]"),
         "pads_begin");
  for (const int64_t value : {-1, 3}) {
    EXPECT(contains(refusal([&] { parse_auto_pad(value); }), "attribute auto_pad="), "auto_pad");
  }
  EXPECT(parse_auto_pad(0) == AutoPad::kNotset && parse_auto_pad(1) == AutoPad::kSameUpper &&
             parse_auto_pad(2) == AutoPad::kSameLower,
         "auto_pad");
}

TEST(shape_refusals) {
  ConvAttributes a = attributes(ConvOp::kConvTranspose, 2);
  a.group = 2;
  const Shape x = {1, 4, 5, 5}, w = {4, 3, 2, 2}, bias = {6};
  EXPECT(refusal([&] { complete(a, x, w, &bias); }).empty(), "good shapes");
  struct Case {
    const char* text;
    Shape x, w, bias;
  };
  const Case cases[] = {
      {"input X has shape [1, 4, 5]; allowed: rank 4", {1, 4, 5}, w, bias},
      {"input X has shape [1, 6, 5, 5], that is 6 channels on axis 1; allowed: 4", {1, 6, 5, 5}, w, bias},
      {"input W has shape [4, 3, 2]; allowed: rank 4", x, {4, 3, 2}, bias},
      {"input W has shape [3, 3, 2, 2], that is 3 input channels on axis 0", x, {3, 3, 2, 2}, bias},
      {"input W has shape [4, 3, 0, 2], a kernel of size 0 on axis 2", x, {4, 3, 0, 2}, bias},
      {"input B has shape [5]; allowed: [6]", x, w, {5}},
      {"input B has shape [6, 1]; allowed: [6]", x, w, {6, 1}},
      {"input X has shape [0, 4, 9223372036854775807, 1]", {0, 4, kMax, 1}, w, bias},
  };
  for (const Case& c : cases) {
    const std::string text = refusal([&] { complete(a, c.x, c.w, &c.bias); });
    EXPECT(contains(text, c.text), c.text, " got: ", text);
  }
  ConvAttributes to_shape = attributes(ConvOp::kConvTransposeToShape, 2);
  const std::vector<int64_t> negative = {3, -1}, too_long = {3, 3, 3};
  const Shape w1 = {4, 3, 2, 2};
  EXPECT(contains(refusal([&] { complete(to_shape, x, w1, nullptr, &negative); }), "input output_shape[1]=-1"), "-1");
  EXPECT(contains(refusal([&] { complete(to_shape, x, w1, nullptr, &too_long); }),
                  "input output_shape has 3 entries; allowed: 2"),
         "length");
}

TEST(sizes_that_overflow_are_refused) {
  ConvAttributes a = attributes(ConvOp::kConvTranspose, 1);
  a.strides = {kMaxExtent};
  EXPECT(contains(refusal([&] { complete(a, {1, 1, 3}, {1, 1, 1}); }), "is too large"), "stride");
  EXPECT(complete(a, {1, 1, 1}, {1, 1, 1}).dst_size[0] == 1, "a stride that is never taken");
  a = attributes(ConvOp::kConvTranspose, 1);
  a.dilations = {kMaxExtent};
  EXPECT(contains(refusal([&] { complete(a, {1, 1, 1}, {1, 1, 2}); }), "kernel extent"), "dilation");
  EXPECT(complete(a, {1, 1, 4}, {1, 1, 1}).dst_size[0] == 4, "a dilation that is never taken");
  a = attributes(ConvOp::kConvTranspose, 2);
  a.output_padding = {int64_t{1} << 40, int64_t{1} << 40};
  EXPECT(contains(refusal([&] { complete(a, {1, 1, 1, 1}, {1, 1, 1, 1}); }), "output Y has shape"), "bytes");
  EXPECT(complete(a, {0, 1, 1, 1}, {1, 1, 1, 1}).mb == 0, "an empty tensor of absurd sizes");
}

// Whatever comes in, an Error or a problem whose numbers stay in range comes out; run under a sanitizer.
TEST(hostile_numbers) {
  const int64_t values[] = {
      kMin, -1, 0, 1, 2, 3, 5, int64_t{1} << 31, int64_t{1} << 32, kMaxExtent / 2, kMaxExtent, kMaxExtent + 1, kMax};
  std::mt19937_64 random(7);
  const auto pick = [&] { return values[random() % std::size(values)]; };
  const auto mostly_small = [&] { return random() % 4 == 0 ? pick() : values[3 + random() % 4]; };
  const auto list = [&](int count) {
    std::vector<int64_t> result;
    for (int i = 0; i < count; ++i) result.push_back(mostly_small());
    return result;
  };
  int accepted = 0;
  for (int i = 0; i < 200000; ++i) {
    const int ndims = 1 + static_cast<int>(random() % 2);
    ConvAttributes a = attributes(static_cast<ConvOp>(random() % 3), ndims);
    a.strides = list(ndims), a.dilations = list(ndims);
    for (int64_t& pad : a.pads) pad = random() % 2 == 0 ? 0 : mostly_small();
    if (a.transposed()) a.output_padding = list(ndims);
    a.group = random() % 2 == 0 ? 1 : mostly_small();
    const Shape x = list(ndims + 2), w = list(ndims + 2);
    const std::vector<int64_t> output_shape = list(ndims);
    try {
      const ConvProblem p = complete(a, x, w, nullptr, a.op == ConvOp::kConvTransposeToShape ? &output_shape : nullptr);
      ++accepted;
      for (int j = 0; j < ndims; ++j) EXPECT(p.dst_size[j] >= 0 && p.pad[j] >= 0, "axis ", j);
    } catch (const Error&) {
    }
  }
  EXPECT(accepted > 1000, "the numbers are so hostile that nothing was tested: ", accepted);
}

}  // namespace
}  // namespace ortconv
