// Plans of convolutions of 8-bit integers, carried out and compared with the definition.
#pragma once

#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cuda/plan/gemm_plan.h"
#include "testing/cuda/integer_cases.h"
#include "testing/cuda/plans.h"
#include "testing/cuda/tensors.h"
#include "testing/cuda/tried.h"
#include "testing/gpu/run.h"

namespace ortconv::cuda {

using test::draw_tensors;
using test::IntegerTensors;
using test::Zeros;

struct Setting {
  Device device;
  bool packed = false;
  emulator::Choices choices;
  int64_t tiling = -1;  // index of a possible tiling, modulo their number; -1: the choice of the plan
  int64_t skew = 0;     // of Y and the residual, in bytes, where they are 8-bit integers
};

inline Tried& tried() {
  static Tried all;
  return all;
}

// Notes what is to run; true where something about it is new.
inline bool note(const std::vector<Launch>& launches, const IntegerTensors& t, const Setting& s,
                 const std::string& about) {
  return tried().add(launches,
                     {t.x_zero.empty() ? "no zero point of X" : "zero point of X",
                      t.w_zero.empty()       ? "no zero point of W"
                      : t.w_zero.size() == 1 ? "zero point of W"
                                             : "zero points of channels",
                      t.w_scale.size() == 1 ? "scale" : "scales of channels", t.bias.empty() ? "no bias" : "bias",
                      t.residual.empty() ? "no residual" : "residual", t.factor.empty() ? "not affine" : "affine",
                      t.has_element_bias ? "bias of elements" : "bias of channels",
                      s.choices.late_copies ? "late copies" : "early copies",
                      s.packed ? "packed before" : "packed by the run", about});
}

// What the plan makes of the tensors; none where they are left out.
inline std::optional<std::vector<double>> run(const IntegerTensors& t, const ConvProblem& p, size_t count,
                                              const Setting& s, const std::string& what, const std::string& about) {
  const Elements elements = t.elements();
  Plan plan = plan_run(elements, t.op, p, s.device, {}, s.packed, t.terms());
  if (s.tiling >= 0 && !plan.launches.empty()) {
    plan_gemm(elements, t.op, p, s.device, {}, s.packed, t.terms(), &plan, [&](const std::vector<Tiling>& tilings) {
      return std::cref(tilings[static_cast<size_t>(s.tiling) % tilings.size()]);
    });
  }
  const WeightPlan weights = s.packed ? plan_weights(elements, t.op, p, s.device, {}) : WeightPlan();
  std::vector<Launch> launches = weights.launches;
  launches.insert(launches.end(), plan.launches.begin(), plan.launches.end());
  for (const Launch& launch : launches) expect_within_limits(launch, s.device, what);
  if (!tried().is_wanted(note(launches, t, s, about))) return std::nullopt;
  DeviceMemory packed(weights.packed_bytes), scratch(plan.scratch_bytes);
  const Tensor<uint8_t> x(t.x, 0), w(t.w, 0), x_zero(t.x_zero, 0), w_zero(t.w_zero, 0);
  const Tensor<uint8_t> y_zero(t.y_zero, 0), residual(t.residual, s.skew), residual_zero(t.residual_zero, 0);
  const Tensor<float> x_scale(t.x_scale, 0), w_scale(t.w_scale, 0), bias(t.bias, 0), y_scale(t.y_scale, 0);
  const Tensor<float> residual_scale(t.residual_scale, 0), factor(t.factor, 0), addend(t.addend, 0);
  const Tensor<float> y(std::vector<float>(t.quantized() ? 0 : count, NAN), 0);
  const Tensor<uint8_t> quantized_y(std::vector<uint8_t>(t.quantized() ? count : 0, 0x5a), s.skew);
  emulator::Memory memory;
  const auto put = [&memory](Buffer buffer, const auto& tensor) {
    if (!tensor.values().empty()) tensor.put(buffer, ptx::Content::kDefined, &memory);
  };
  put(Buffer::kX, x);
  put(Buffer::kW, w);
  put(Buffer::kXScale, x_scale);
  put(Buffer::kScales, w_scale);
  put(Buffer::kXZero, x_zero);
  put(Buffer::kZeros, w_zero);
  put(Buffer::kB, bias);
  put(Buffer::kYScale, y_scale);
  put(Buffer::kYZero, y_zero);
  put(Buffer::kResidual, residual);
  put(Buffer::kResidualScale, residual_scale);
  put(Buffer::kResidualZero, residual_zero);
  put(Buffer::kFactor, factor);
  put(Buffer::kAddend, addend);
  if (t.quantized()) {
    quantized_y.put(Buffer::kY, ptx::Content::kResult, &memory);
  } else {
    y.put(Buffer::kY, ptx::Content::kResult, &memory);
  }
  memory.set(Buffer::kPacked, packed.data(), weights.packed_bytes, ptx::Content::kUndefined);
  memory.set(Buffer::kScratch, scratch.data(), plan.scratch_bytes, ptx::Content::kUndefined);
  for (const Launch& launch : launches) emulator::run(launch, s.device.sm, memory, s.choices);
  std::vector<double> result;
  for (const float value : y.values()) result.push_back(static_cast<double>(value));
  for (const uint8_t code : quantized_y.values()) {
    result.push_back(static_cast<double>(test::value_of(code, t.y_signed)));
  }
  return result;
}

// `about`: what is special about the problem, so that it is not left out.
inline void check(const IntegerTensors& t, const Case& c, const ConvProblem& p, const Setting& s,
                  const std::string& about = "") {
  const std::string what =
      test::describe(c.describe(), t.x_signed ? " s8" : " u8", t.w_signed ? " s8" : " u8",
                     t.x_zero.empty() ? "" : " x zero", " w zeros ", t.w_zero.size(), " on sm ", s.device.sm,
                     " multiprocessors ", s.device.multiprocessors, s.packed ? " packed before" : "", " order ",
                     s.choices.order, s.choices.late_copies ? " late copies" : "", " tiling ", s.tiling,
                     !t.quantized() ? ""
                     : t.y_signed   ? " to s8"
                                    : " to u8",
                     t.residual.empty() ? "" : " residual", t.factor.empty() ? "" : " affine",
                     t.has_element_bias ? " bias of elements" : "");
  try {
    const auto y = run(t, p, static_cast<size_t>(test::count_of_dst(p)), s, what, about);
    if (!y) return;
    const std::vector<double> expected = test::expected_of(t, p);
    EXPECT(y->size() == expected.size(), what, ": ", y->size(), " elements");
    for (size_t i = 0; i < y->size(); ++i) {
      if (expected[i] == (*y)[i]) continue;
      EXPECT(false, what, ": element ", i, " of ", y->size(), " is ", (*y)[i], " not ", expected[i]);
      break;
    }
  } catch (const Error& error) {
    EXPECT(false, what, ": ", error.what());
  }
}

inline Setting draw_setting(CaseMaker& maker) {
  Setting s;
  s.device = kDevices[maker.draw(0, 3)];
  s.device.multiprocessors = static_cast<int>(maker.draw(1, 4));
  s.packed = maker.draw(0, 1) == 0;
  s.choices.order = static_cast<unsigned>(maker.draw(0, 5));
  s.choices.late_copies = maker.draw(0, 1) == 0;
  s.skew = maker.draw(0, 1);
  return s;
}

// ORTCONV_CUDA_TEST_CASES asks for more, or for fewer, than 60.
inline int wanted_cases() {
  const char* const wanted = std::getenv("ORTCONV_CUDA_TEST_CASES");
  return wanted != nullptr ? std::atoi(wanted) : 60;
}

}  // namespace ortconv::cuda
