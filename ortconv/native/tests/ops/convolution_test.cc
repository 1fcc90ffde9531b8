// Convolution, in every element type, against the definition of the ops; exact, see CaseMaker::values.
#include "ops/convolution.h"

#include <cstring>
#include <limits>
#include <new>

#include "base/activation.h"
#include "base/parallel.h"
#include "ops/epilogue.h"
#include "ops/reference.h"
#include "ops/simplified_problem.h"
#include "testing/cases.h"
#include "testing/on_threads.h"
#include "testing/test.h"

namespace ortconv {
namespace {

using test::Case;
using test::CaseMaker;

const char* name_of(Weights lifetime) { return lifetime == Weights::kConstant ? "constant" : "run-time"; }

// Memory of exactly `bytes`, aligned to 64, full of NaNs.
class Memory {
 public:
  explicit Memory(size_t bytes) : data_(::operator new(bytes, std::align_val_t(64))) {
    std::memset(data_, 0xff, bytes);
  }
  ~Memory() { ::operator delete(data_, std::align_val_t(64)); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data() { return data_; }

 private:
  void* data_;
};

template <class T>
struct Data {
  std::vector<T> src, wei, bias, residual, expected;

  Data(CaseMaker& maker, const Case& c, const ConvProblem& p)
      : src(maker.values<T>(test::count_of(c.x))),
        wei(maker.values<T>(test::count_of(c.w))),
        bias(maker.values<T>(c.bias ? p.oc : 0)),
        residual(maker.values<T>(c.residual ? test::count_of_dst(p) : 0)),
        expected(test::oracle(p, c.op(), src.data(), wei.data(), bias_data(), residual_data())) {}

  const T* bias_data() const { return bias.empty() ? nullptr : bias.data(); }
  const T* residual_data() const { return residual.empty() ? nullptr : residual.data(); }
  bool equals(const std::vector<T>& dst) const {
    return dst.empty() || std::memcmp(dst.data(), expected.data(), dst.size() * sizeof(T)) == 0;
  }
  // What dst holds before the run: no value that a test expects.
  std::vector<T> all_ones() const {
    T ones;
    std::memset(static_cast<void*>(&ones), 0xff, sizeof ones);
    return std::vector<T>(expected.size(), ones);
  }
};

// As on a node: with constant weights, and with weights that only the run knows; by what is estimated to be fastest,
// and by one that is asked for, each in its turn.
template <class T>
void check_convolution(const Case& c, const ConvProblem& p, const Data<T>& data, DataType dtype,
                       const Parallel& parallel) {
  static size_t turn = 0;
  const implementations::List all = implementations::list();
  const std::string one = all.begin()[turn++ % static_cast<size_t>(all.end() - all.begin())].name;
  for (const Weights lifetime : {Weights::kConstant, Weights::kOfRun}) {
    for (const std::string& name : {std::string(), one}) {
      const Convolution convolution(dtype, c.op(), p, data.wei.data(), lifetime, ArchFlags::host(), {name, "", "", ""});
      const auto choice = convolution.choose(p, data.wei.data());
      Memory scratch(convolution.scratch_bytes(*choice, parallel.threads));
      std::vector<T> dst = data.all_ones();
      convolution.run(*choice, data.src.data(), data.wei.data(), data.bias_data(), data.residual_data(), dst.data(),
                      scratch.data(), parallel);
      EXPECT(data.equals(dst), name_of(lifetime), " weights, type ", static_cast<int>(dtype), ", by '", name, "', ",
             c.describe());
    }
  }
}

template <class T>
void check_reference(const Case& c, const ConvProblem& p, const Data<T>& data, DataType dtype,
                     const Parallel& parallel) {
  if (data.expected.empty() || c.residual) return;
  Memory packed(reference::packed_bytes(dtype, p));
  reference::pack_weights(dtype, c.op(), p, data.wei.data(), packed.data(), parallel);
  std::vector<T> dst = data.all_ones();
  reference::run(dtype, c.op(), p, data.src.data(), packed.data(), data.bias_data(), dst.data(), parallel);
  activate(dtype, p.activation, dst.data(), static_cast<int64_t>(dst.size()), parallel);
  EXPECT(data.equals(dst), "reference, type ", static_cast<int>(dtype), ", ", c.describe());
}

// Returns whether the ops take the case.
bool check(CaseMaker& maker, const Case& c, DataType dtype, const Parallel& parallel) {
  ConvProblem p;
  try {
    p = c.problem(dtype);
  } catch (const Error&) {
    return false;
  }
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    const Data<T> data(maker, c, p);
    check_convolution(c, p, data, dtype, parallel);
    check_reference(c, p, data, dtype, parallel);
  });
  return true;
}

// One node that has runs of several sizes.
void check_sizes(CaseMaker& maker, const std::vector<Case>& cases, DataType dtype) {
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> wei = maker.values<T>(test::count_of(cases[0].w));
    const Convolution convolution(dtype, cases[0].op(), cases[0].problem(dtype), wei.data(), Weights::kConstant,
                                  ArchFlags::host());
    for (const Case& c : cases) {
      const ConvProblem p = c.problem(dtype);
      Data<T> data(maker, c, p);
      data.expected = test::oracle(p, c.op(), data.src.data(), wei.data(), data.bias_data(), data.residual_data());
      const auto choice = convolution.choose(p, wei.data());
      Memory scratch(convolution.scratch_bytes(*choice, 1));
      std::vector<T> dst = data.all_ones();
      convolution.run(*choice, data.src.data(), wei.data(), data.bias_data(), data.residual_data(), dst.data(),
                      scratch.data(), serial());
      EXPECT(data.equals(dst), "type ", static_cast<int>(dtype), ", ", c.describe());
    }
  });
}

#if defined(ORTCONV_ONLY_THREADS)
constexpr bool kOnlyThreads = true;
#else
constexpr bool kOnlyThreads = false;
#endif

void check_random(int ndims, int count, uint64_t seed) {
  CaseMaker maker(seed);
  const Parallel threaded = on_threads(3);
  int taken = 0, tried = 0;
  const int cases = kOnlyThreads ? count : count / test::kShare;
  for (int i = 0; i < cases; ++i) {
    const Case c = maker.make(ndims);
    const DataType dtype = kDataTypes[i % std::size(kDataTypes)];
    const bool has_threads = i % 10 == 0;
    if (kOnlyThreads && !has_threads) continue;
    ++tried;
    taken += check(maker, c, dtype, has_threads ? threaded : serial());
  }
  EXPECT(taken > tried / 3, "most cases were refused: ", taken, " of ", tried);
}

TEST(every_type_1d) { check_random(1, 2400, 1); }
TEST(every_type_2d) { check_random(2, 2400, 2); }
TEST(every_type_3d) { check_random(3, 1200, 3); }
TEST(every_type_4d) { check_random(4, 360, 4); }
TEST(every_type_6d) { check_random(6, 120, 6); }

// Images of one column, and one of them among others of the same node.
TEST(unit_axes) {
  CaseMaker maker(7);
  int merged = 0, copied = 0;
  for (int i = 0; i < 8000 / test::kShare; ++i) {
    Case c = maker.make(static_cast<int>(maker.draw(2, 4)));
    ConvAttributes& a = c.attributes;
    if (!a.transposed()) continue;
    if (i % 4 != 0) {  // the usual layouts, or most could not be merged
      const Shape x = c.x, w = c.w;
      for (size_t j = 0; j < x.size(); ++j) c.x[j] = x[a.x_perm[j]], c.w[j] = w[a.w_perm[j]];
      a.x_perm = a.w_perm = a.y_perm = test::attributes(a.op, static_cast<int>(a.strides.size())).x_perm;
      a.dilations.back() = 1;
      a.output_padding.back() = 0;
      if (i % 4 == 1) c.w.back() = 1, a.pads.assign(a.pads.size(), 0);
    }
    const int last = static_cast<int>(a.strides.size()) - 1;
    const int64_t several = c.x[a.x_perm[last + 2]];
    const DataType dtype = kDataTypes[i / 4 % 4];  // those of the fast kernels
    try {
      Case column = c;
      for (int axis = last; axis > 0 && (axis == last || maker.draw(0, 1) == 0); --axis)
        column.x[a.x_perm[axis + 2]] = 1;
      const ConvProblem p = column.problem(dtype);
      if (p.mb * p.ic * p.oc == 0 || *std::min_element(p.src_size, p.src_size + p.ndims) == 0 ||
          *std::min_element(p.dst_size, p.dst_size + p.ndims) == 0) {
        continue;
      }
      const auto result = simplified(p, true);
      const bool merges = result && result->problem.ndims < p.ndims;
      merged += merges ? 1 : 0;
      copied += merges && result->copies ? 1 : 0;
      check(maker, column, dtype, serial());
      if (several > 1) check_sizes(maker, {column, c, column}, dtype);
    } catch (const Error&) {
      continue;
    }
  }
  EXPECT(merged * test::kShare > 300 && copied * test::kShare > 80 && (merged - copied) * test::kShare > 100, "merged ",
         merged, ", copied ", copied);
}

// One kernel and the same taps, but another number of axes that merge.
TEST(unit_axes_that_come_and_go) {
  CaseMaker maker(8);
  Case c;
  c.attributes = test::attributes(ConvOp::kConvTranspose, 3);
  c.attributes.strides = {2, 1, 3};
  c.w = {4, 5, 3, 2, 2};
  const auto of_size = [&](int64_t rows, int64_t columns) {
    Case sized = c;
    sized.x = {2, 4, 5, rows, columns};
    return sized;
  };
  for (int i = 0; i < 4; ++i) {
    check_sizes(maker, {of_size(1, 1), of_size(3, 1), of_size(1, 1), of_size(3, 2)}, kDataTypes[i]);
    check_sizes(maker, {of_size(3, 1), of_size(1, 1), of_size(1, 2), of_size(3, 1)}, kDataTypes[i]);
  }
}

TEST(columns_become_rows) {
  Case c;
  c.attributes = test::attributes(ConvOp::kConvTranspose, 2);
  c.attributes.strides = {2, 2};
  c.attributes.pads = {1, 1, 1, 1};
  c.x = {1, 3, 5, 1};
  c.w = {3, 4, 4, 4};
  const auto merged = simplified(c.problem(DataType::kFloat), true);
  EXPECT(merged && merged->copies && merged->problem.ndims == 1, "taps 1 and 2 of the last axis land in dst");
  const ConvProblem& p = merged->problem;
  EXPECT(p.src_size[0] == 5 && p.dst_size[0] == 20, p.src_size[0], " > ", p.dst_size[0]);
  EXPECT(p.ker[0] == 8 && p.stride[0] == 4 && p.pad[0] == 2, p.ker[0], " ", p.stride[0], " ", p.pad[0]);
  EXPECT(!simplified(c.problem(DataType::kFloat), false), "without a copy of the weights");
  c.x = {1, 3, 1, 5};
  EXPECT(simplified(c.problem(DataType::kFloat), true)->problem.ndims == 2, "a row");
  c.x = {1, 3, 5, 1};
  c.attributes.output_padding = {0, 2};
  const auto cropped = simplified(c.problem(DataType::kFloat), true);
  EXPECT(cropped && cropped->problem.ndims == 2, "the last column has no tap");
}

TEST(taps_at_the_ends_that_land_nowhere) {
  Case c;
  c.attributes = test::attributes(ConvOp::kConvTranspose, 2);
  c.attributes.dilations = {1, 2};
  c.attributes.pads = {2, 5, 1, 4};
  c.x = {1, 3, 1, 2};
  c.w = {3, 4, 5, 9};
  // Of the first axis taps 2 and 3 land, of the last one those whose place, less 5, is at least -1 and at most 7.
  const auto found = simplified(c.problem(DataType::kFloat), true);
  EXPECT(found && found->copies && found->problem.ndims == 2, "both have some");
  const Crop& crop = found->crop;
  EXPECT(crop.begin[0] == 2 && crop.size[0] == 2, crop.begin[0], ", ", crop.size[0]);
  EXPECT(crop.begin[1] == 2 && crop.size[1] == 5, crop.begin[1], ", ", crop.size[1]);
  EXPECT(found->problem.pad[0] == 0 && found->problem.pad[1] == 1, found->problem.pad[0], ", ", found->problem.pad[1]);
  EXPECT(!simplified(c.problem(DataType::kFloat), false), "without a copy of the weights");
  c.x = {1, 3, 40, 40};
  EXPECT(!simplified(c.problem(DataType::kFloat), true), "all taps land");
}

// Small images with large paddings, and other sizes of the same node, more of them than it keeps weights for.
TEST(cropped_kernels) {
  CaseMaker maker(9);
  int dropped = 0;
  for (int i = 0; i < 3000 / test::kShare; ++i) {
    Case c = maker.make(static_cast<int>(maker.draw(1, 3)));
    ConvAttributes& a = c.attributes;
    if (!a.transposed()) continue;
    a.auto_pad = AutoPad::kNotset;
    c.output_shape.reset();
    const size_t ndims = a.strides.size();
    a.pads.resize(2 * ndims);
    const DataType dtype = kDataTypes[i % 4];  // those of the fast kernels
    for (size_t axis = 0; axis < ndims; ++axis) {
      const int64_t reach = (c.w[a.w_perm[axis + 2]] - 1) * a.dilations[axis];
      a.pads[axis] = maker.draw(0, reach), a.pads[axis + ndims] = maker.draw(0, reach - a.pads[axis] / 2);
    }
    std::vector<Case> sizes;
    for (int j = 0; j < 6; ++j) {
      Case sized = c;
      for (size_t axis = 0; axis < ndims; ++axis) sized.x[a.x_perm[axis + 2]] = maker.draw(1, 3);
      try {
        const ConvProblem p = sized.problem(dtype);
        if (test::count_of_dst(p) == 0 || test::count_of(sized.x) == 0) continue;
        const auto found = simplified(p, true);
        if (found && found->crop.axes == p.ndims) ++dropped;
        sizes.push_back(sized);
      } catch (const Error&) {
        continue;
      }
    }
    if (sizes.empty()) continue;
    check(maker, sizes[0], dtype, serial());
    if (sizes.size() > 1) check_sizes(maker, sizes, dtype);
  }
  EXPECT(dropped * test::kShare > 500, "taps were left out of ", dropped);
}

// Strides, dilations and paddings near the limit on tensors of a few elements.
TEST(absurd_attributes) {
  CaseMaker maker(11);
  const int64_t absurd[] = {int64_t{1} << 31, int64_t{1} << 40, kMaxExtent - 1, kMaxExtent};
  int taken = 0;
  for (int i = 0; i < 40000 / test::kShare; ++i) {
    Case c = maker.make(static_cast<int>(maker.draw(1, 2)));
    ConvAttributes& a = c.attributes;
    for (auto* list : {&a.strides, &a.dilations, &a.pads}) {
      if (list == &a.pads && a.auto_pad != AutoPad::kNotset) continue;
      if (maker.draw(0, 1) == 0) (*list)[maker.draw(0, list->size() - 1)] = absurd[maker.draw(0, 3)];
    }
    try {
      const ConvProblem p = c.problem(DataType::kFloat);
      double outputs = static_cast<double>(p.mb) * static_cast<double>(p.oc);
      for (int j = 0; j < p.ndims; ++j) outputs *= static_cast<double>(p.dst_size[j]);
      if (outputs > 1e4) continue;
    } catch (const Error&) {
      continue;
    }
    taken += check(maker, c, i % 2 == 0 ? DataType::kFloat : DataType::kUint8, serial());
  }
  EXPECT(taken * test::kShare > 1000, "only ", taken, " cases were taken");
}

// Weights without input channels, so without elements, whose sizes multiply to more than int64 holds.
TEST(nothing_to_sum_over_absurd_kernels) {
  Case c;
  c.attributes = test::attributes(ConvOp::kConvTranspose, 2);
  c.attributes.pads = {kMaxExtent - 3, kMaxExtent - 3, 0, 0};
  c.x = {1, 0, 3, 3};
  c.w = {0, 2, kMaxExtent - 2, kMaxExtent - 2};
  const ConvProblem p = c.problem(DataType::kInt32);
  const std::vector<int32_t> bias = {7, -8};
  std::vector<int32_t> dst(2 * 3 * 3);
  const Convolution convolution(DataType::kInt32, c.op(), p, nullptr, Weights::kConstant, ArchFlags::host());
  convolution.run(*convolution.choose(p, nullptr), nullptr, nullptr, bias.data(), nullptr, dst.data(), nullptr,
                  serial());
  for (size_t i = 0; i < dst.size(); ++i) EXPECT(dst[i] == bias[i / 9], "element ", i, ": ", dst[i]);
}

// 16-bit floats round once, at the end: 2048 + 1 + 1 is 2050 in float16 only if the sum is formed in float.
TEST(float16_rounds_once_and_overflows_to_infinity) {
  Case c;
  c.attributes = test::attributes(ConvOp::kConv, 1);
  c.x = {1, 3, 2};
  c.w = {1, 3, 1};
  c.bias = false;
  const ConvProblem p = c.problem(DataType::kFloat16);
  std::vector<Float16> src, wei(3, to_float16(1.0f)), dst(2);
  for (float value : {2048.0f, 60000.0f, 1.0f, 60000.0f, 1.0f, -0.5f}) src.push_back(to_float16(value));
  const Convolution convolution(DataType::kFloat16, c.op(), p, wei.data(), Weights::kConstant, ArchFlags());
  const auto choice = convolution.choose(p, wei.data());
  Memory scratch(convolution.scratch_bytes(*choice, 1));
  convolution.run(*choice, src.data(), wei.data(), nullptr, nullptr, dst.data(), scratch.data(), serial());
  EXPECT(to_float(dst[0]) == 2050.0f, to_float(dst[0]));
  EXPECT(to_float(dst[1]) == std::numeric_limits<float>::infinity(), to_float(dst[1]));
}

template <class T>
void check_infinities(DataType dtype, kernels::Op op, const ConvProblem& p, bool in_weights, Weights lifetime) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<T> src(2 * 9 * 9, test::narrow<T>(1.0)), wei(2 * 18 * 3 * 3, test::narrow<T>(1.0));
  src[40] = test::narrow<T>(-kInfinity);
  src[100] = test::narrow<T>(kInfinity - kInfinity);
  if (in_weights) {
    wei[5] = test::narrow<T>(kInfinity);
    wei[31] = test::narrow<T>(kInfinity - kInfinity);
  }
  const std::vector<T> expected = test::oracle<T>(p, op, src.data(), wei.data(), nullptr);
  const Convolution convolution(dtype, op, p, wei.data(), lifetime, ArchFlags::host());
  const auto choice = convolution.choose(p, wei.data());
  Memory scratch(convolution.scratch_bytes(*choice, 1));
  std::vector<T> dst(expected.size());
  convolution.run(*choice, src.data(), wei.data(), nullptr, nullptr, dst.data(), scratch.data(), serial());
  for (size_t i = 0; i < dst.size(); ++i) {
    const double found = test::widen(dst[i]), wanted = test::widen(expected[i]);
    EXPECT(found == wanted || (found != found && wanted != wanted), "type ", static_cast<int>(dtype), ", ",
           name_of(lifetime), " weights, element ", i, ": ", found, " not ", wanted);
  }
}

// A value reaches exactly the outputs that its taps reach, infinities and NaN included: nothing is multiplied by a zero
// that the definition does not have.
TEST(infinities_stay_where_they_belong) {
  Case c;
  c.attributes = test::attributes(ConvOp::kConvTranspose, 2);
  c.attributes.strides = {2, 2};
  c.attributes.pads = {1, 1, 0, 0};
  c.x = {1, 2, 9, 9};
  c.w = {2, 18, 3, 3};
  c.bias = false;
  for (const bool in_weights : {false, true}) {
    for (const Weights lifetime : {Weights::kConstant, Weights::kOfRun}) {
      const ConvProblem p = c.problem(DataType::kFloat);
      check_infinities<float>(DataType::kFloat, c.op(), p, in_weights, lifetime);
      check_infinities<double>(DataType::kDouble, c.op(), p, in_weights, lifetime);
      check_infinities<Float16>(DataType::kFloat16, c.op(), p, in_weights, lifetime);
      check_infinities<Bfloat16>(DataType::kBfloat16, c.op(), p, in_weights, lifetime);
    }
  }
}

TEST(there_is_work_for_every_thread) {
  struct Pool {
    int64_t most = 0;
  } pool;
  const Parallel parallel{&pool,
                          [](void* context, int64_t n, void (*fn)(void*, int64_t), void* arg) {
                            int64_t& most = static_cast<Pool*>(context)->most;
                            most = std::max(most, n);
                            for (int64_t i = 0; i < n; ++i) fn(arg, i);
                          },
                          3};
  Case c;
  c.x = {1, 64, 24, 24};
  c.bias = false;
  for (const ConvOp op : {ConvOp::kConv, ConvOp::kConvTranspose}) {
    c.attributes = test::attributes(op, 2);
    c.attributes.strides = {2, 2};
    c.w = op == ConvOp::kConv ? Shape{32, 64, 4, 4} : Shape{64, 32, 4, 4};
    const ConvProblem p = c.problem(DataType::kFloat);
    CaseMaker maker(12);
    const Data<float> data(maker, c, p);
    pool.most = 0;
    check_convolution(c, p, data, DataType::kFloat, parallel);
    EXPECT(pool.most >= 3, "at most ", pool.most, " tasks");
  }
}

TEST(small_problems_stay_on_one_thread) {
  Case c;
  c.attributes = test::attributes(ConvOp::kConv, 1);
  c.x = {1, 1, 10};
  c.w = {1, 1, 3};
  const auto is_small = [&c](DataType dtype) {
    const ConvProblem p = c.problem(dtype);
    const Convolution convolution(dtype, c.op(), p, nullptr, Weights::kOfRun, ArchFlags::host());
    return convolution.is_small(*convolution.choose(p, nullptr));
  };
  const DataType types[] = {DataType::kFloat, DataType::kInt32};  // whose times are estimated, and are not
  for (const DataType dtype : types) EXPECT(is_small(dtype), "10 elements");
  c.x = {1, 1, 100000};
  for (const DataType dtype : types) EXPECT(!is_small(dtype), "100000 elements");
}

}  // namespace
}  // namespace ortconv
