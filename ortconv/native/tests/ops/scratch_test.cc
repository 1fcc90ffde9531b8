// No kernel multiplies what its scratch held before the run. Lanes that are not written may hold anything; but where
// that is a subnormal number, as integers and pointers are, a product takes a hundred times as long on Intel's CPUs.
#include <algorithm>
#include <string>
#include <vector>

#include "kernels/element.h"
#include "ops/convolution.h"
#include "testing/cases.h"
#include "testing/guarded.h"
#include "testing/test.h"
#include "testing/transposed_family.h"

#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>

namespace ortconv {
namespace {

using test::Case;

// Whether fn() has an operand that is subnormal, which the CPU keeps note of.
template <class Fn>
bool meets_subnormals(Fn fn) {
  constexpr unsigned kSubnormalOperand = 1 << 1;
  _mm_setcsr(_mm_getcsr() & ~kSubnormalOperand);
  fn();
  return (_mm_getcsr() & kSubnormalOperand) != 0;
}

// By each implementation that can compute it. gemm_col2im adds the bias to whole vectors beyond its sums, which takes
// no longer for subnormals.
template <class T>
void check(test::CaseMaker& maker, const Case& c, DataType dtype, std::vector<std::string>* done) {
  const ConvProblem p = c.problem(dtype);
  const auto src = maker.values<T>(test::count_of(c.x)), wei = maker.values<T>(test::count_of(c.w)),
             bias = maker.values<T>(p.oc);
  std::vector<T> dst(static_cast<size_t>(test::count_of_dst(p)));
  for (const implementations::Entry& entry : implementations::list()) {
    const std::string name = entry.name;
    if (name == "gemm_col2im") continue;
    for (const Weights lifetime : {Weights::kConstant, Weights::kOfRun}) {
      const Convolution convolution(dtype, c.op(), p, wei.data(), lifetime, ArchFlags::host(), {name, "", "", ""});
      const auto choice = convolution.choose(p, wei.data());
      if (choice->finite == nullptr || choice->finite->entry->name != name) continue;
      const size_t bytes = align64(convolution.scratch_bytes(*choice, 1));
      kernels::Guarded scratch(bytes, false);
      std::fill_n(scratch.as<uint16_t>(), bytes / sizeof(uint16_t), uint16_t{1});  // subnormal in every type
      const bool meets = meets_subnormals([&] {
        convolution.run(*choice, src.data(), wei.data(), bias.data(), nullptr, dst.data(), scratch.as<void>(),
                        serial());
      });
      EXPECT(!meets, name, ", type ", static_cast<int>(dtype), ", ", c.describe());
      done->push_back(name);
    }
  }
}

void check_types(test::CaseMaker& maker, const Case& c, std::vector<std::string>* done) {
  for (const DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kFloat16, DataType::kBfloat16}) {
    kernels::with_float_type(dtype, [&](auto zero) { check<decltype(zero)>(maker, c, dtype, done); });
  }
}

TEST(scratch_is_written_before_it_is_multiplied) {
  test::CaseMaker maker(20);
  std::vector<std::string> done;
  for (int i = 0; i < 1200 / test::kShare; ++i) {
    Case c = maker.make(static_cast<int>(maker.draw(1, 3)));
    c.residual = false;
    try {
      const ConvProblem p = c.problem(DataType::kFloat);
      if (test::count_of(c.x) == 0 || test::count_of(c.w) == 0 || test::count_of_dst(p) == 0) continue;
    } catch (const Error&) {
      continue;
    }
    check_types(maker, c, &done);
  }
  // Layers for those that compute none of these.
  for (const test::Sizes& sizes : {test::Sizes{{1, 40, 13, 11}, {40, 35, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
                                   test::Sizes{{2, 33, 9, 7}, {33, 20, 2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}},
                                   test::Sizes{{1, 90, 3, 2}, {90, 70, 3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
                                   test::Sizes{{1, 19, 20, 37}, {19, 1, 5, 4}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 19}}) {
    check_types(maker, test::case_of(sizes), &done);
  }
  const auto computes = [&](const char* name) { return std::find(done.begin(), done.end(), name) != done.end(); };
  const ArchFlags& arch = ArchFlags::host();
  for (const char* name : {"winograd", "depth_to_space", "tapwise", "depthwise", "phases", "columns", "sliding_src"}) {
    const bool has_kernel = std::string(name) != "depth_to_space" || (arch.avx2_fma && !arch.amx_bf16);
    EXPECT(computes(name) || !has_kernel, name, " computed nothing");
  }
}

}  // namespace
}  // namespace ortconv
#endif
