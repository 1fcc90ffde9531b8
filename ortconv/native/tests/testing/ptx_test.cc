// The machine's arithmetic against numbers computed by hand, and its rules against kernels that break them.
#include "tests/testing/ptx_test.h"

namespace ortconv::cuda::ptx {
namespace {

// What instructions that end in %r10 leave there.
uint32_t result_of(const std::string& body) {
  Kernel kernel;
  kernel.body = body + "\nst.global.u32 [%rd2], %r10;";
  kernel.threads = 1;
  kernel.run();
  return kernel.numbers[0];
}

void expect_result(const std::string& body, uint32_t expected) {
  const uint32_t result = result_of(body);
  EXPECT(result == expected, body, ": ", result, " not ", expected);
}

TEST(integers) {
  expect_result("add.s32 %r10, -5, 3;", 0xfffffffe);
  expect_result("mul.lo.s32 %r10, 65537, 65537;", 131073);
  expect_result("mul.hi.u32 %r10, 0x80000001, 6;", 3);
  expect_result("mul.hi.s32 %r10, -3, 0x40000000;", 0xffffffff);
  expect_result("mad.lo.s32 %r10, -3, 7, 1;", 0xffffffec);
  expect_result("div.s32 %r10, -7, 2;", 0xfffffffd);
  expect_result("rem.s32 %r10, -7, 2;", 0xffffffff);
  expect_result("div.u32 %r10, -7, 2;", 0x7ffffffc);
  expect_result("shl.b32 %r10, 1, 31;", 0x80000000);
  expect_result("shl.b32 %r10, 1, 32;", 0);
  expect_result("shr.u32 %r10, -1, 40;", 0);
  expect_result("shr.s32 %r10, -8, 40;", 0xffffffff);
  expect_result("shr.s32 %r10, -8, 1;", 0xfffffffc);
  expect_result("max.s32 %r10, -1, 1;", 1);
  expect_result("min.u32 %r10, -1, 1;", 1);
  expect_result("bfi.b32 %r10, 0xff, 0, 8, 4;", 0xf00);
  expect_result("bfi.b32 %r10, 0, -1, 24, 16;", 0xffffff);
  expect_result("mul.wide.s32 %rd10, -2, 3;\nmov.b64 {%r11, %r10}, %rd10;", 0xffffffff);
  expect_result("mul.wide.u32 %rd10, -2, 3;\nmov.b64 {_, %r10}, %rd10;", 2);
  expect_result("cvt.s64.s32 %rd10, -2;\nshr.s64 %rd10, %rd10, 32;\ncvt.u32.u64 %r10, %rd10;", 0xffffffff);
  expect_result("mov.u16 %rs10, 0x1234;\nmov.b32 %r10, {%rs10, 5};", 0x51234);
  expect_result("setp.lt.u32 %p10, -1, 1;\nselp.b32 %r10, 7, 8, %p10;", 8);
  expect_result("setp.lt.s32 %p10, -1, 1;\nselp.b32 %r10, 7, 8, %p10;", 7);
  expect_error("div.s32 %r10, 1, 0;", "a division by zero");
  expect_result("cvt.s32.s8 %r10, 0x17f;", 0x7f);
  expect_result("cvt.s32.s8 %r10, 0x180;", 0xffffff80);
  expect_result("mov.u16 %rs10, 0x1fe;\ncvt.s16.s8 %rs11, %rs10;\ncvt.s32.s16 %r10, %rs11;", 0xfffffffe);
  expect_result("st.global.u32 [%rd1], 0x80;\nld.global.s8 %r10, [%rd1];", 0xffffff80);
  expect_result("st.global.u32 [%rd1], 5;\nred.global.add.u32 [%rd1], -7;\nld.global.u32 %r10, [%rd1];", 0xfffffffe);
  expect_result("prmt.b32 %r10, 0x33221100, 0x77665584, 0x7250;", 0x77225500);
  expect_result("prmt.b32 %r10, 0x33221100, 0x77665584, 0x4dc3;", 0x8400ff33);
}

TEST(floats) {
  expect_result("add.f32 %r10, 0f3F800000, 0f33800000;", 0x3f800000);  // 1 + 2^-24: a tie, to even
  expect_result("add.f32 %r10, 0f3F800001, 0f33800000;", 0x3f800002);
  expect_result("mul.f32 %r10, 0f00800000, 0f3F000000;", 0x00400000);  // a subnormal
  // (1 + 2^-12)^2 - (1 + 2^-11) is lost where the product is rounded first.
  expect_result("fma.rn.f32 %r10, 0f3F800800, 0f3F800800, 0fBF801000;", 0x33800000);
  expect_result("cvt.rn.f32.s32 %r10, -3;", 0xc0400000);
  expect_result("cvt.rn.f32.s32 %r10, 16777217;", 0x4b800000);  // a tie, to even
  expect_result("cvt.rn.f32.u32 %r10, -1;", 0x4f800000);
  expect_result("cvt.rni.s32.f32 %r10, 0f40200000;", 2);  // 2.5, a tie, to even
  expect_result("cvt.rni.s32.f32 %r10, 0fBFC00000;", 0xfffffffe);
  expect_result("cvt.rni.s32.f32 %r10, 0f4F800000;", 0x7fffffff);
  expect_result("cvt.rni.s32.f32 %r10, 0f7FC00000;", 0);
  expect_result("div.rn.f32 %r10, 0f3F800000, 0f40400000;", 0x3eaaaaab);
  expect_result("setp.nan.f32 %p10, 0f7FC00000, 0f0;\nselp.b32 %r10, 1, 0, %p10;", 1);
  expect_result("setp.lt.f32 %p10, 0f7FC00000, 0f3F800000;\nselp.b32 %r10, 1, 0, %p10;", 0);
  expect_result("setp.neu.f32 %p10, 0f7FC00000, 0f3F800000;\nselp.b32 %r10, 1, 0, %p10;", 1);
}

TEST(doubles) {
  const auto expect_high = [](const std::string& body, uint32_t high) {
    expect_result(body + "\nmov.b64 {%r11, %r10}, %rd10;", high);
  };
  const auto expect_low = [](const std::string& body, uint32_t low) {
    expect_result(body + "\nmov.b64 {%r10, %r11}, %rd10;", low);
  };
  const std::string one = "0d3FF0000000000000", half_unit = "0d3CA0000000000000", next = "0d3FF0000000000001";
  expect_low("add.f64 %rd10, " + one + ", " + half_unit + ";", 0);  // 1 + 2^-53: a tie, to even
  expect_low("add.rn.f64 %rd10, " + next + ", " + half_unit + ";", 2);
  expect_high("sub.f64 %rd10, " + one + ", 0d4008000000000000;", 0xc0000000);
  expect_high("mul.f64 %rd10, 0d4008000000000000, 0dC000000000000000;", 0xc0180000);
  // (1 + 2^-27)^2 - (1 + 2^-26) is lost where the product is rounded first.
  expect_high("fma.rn.f64 %rd10, 0d3FF0000002000000, 0d3FF0000002000000, 0dBFF0000004000000;", 0x3c900000);
  expect_high("neg.f64 %rd10, " + one + ";", 0xbff00000);
  expect_high("mov.f64 %rd10, " + one + ";", 0x3ff00000);
  expect_high("setp.eq.s32 %p10, 1, 1;\nselp.f64 %rd10, " + half_unit + ", " + one + ", %p10;", 0x3ca00000);
  expect_high("st.global.f64 [%rd1], " + one + ";\nld.global.f64 %rd10, [%rd1];", 0x3ff00000);
  expect_high("cvt.f64.f32 %rd10, 0fBF800000;", 0xbff00000);
  expect_result("cvt.rn.f32.f64 %r10, 0d3FF0000010000000;", 0x3f800000);  // 1 + 2^-24: a tie, to even
  expect_result("neg.f32 %r10, 0f00000000;", 0x80000000);
}

TEST(conversions) {
  const auto to_half = [](const std::string& bits) {
    return result_of("cvt.rn.f16.f32 %rs10, " + bits + ";\nmov.b32 %r10, {%rs10, 0};");
  };
  EXPECT(to_half("0f3F800000") == 0x3c00, "1");
  EXPECT(to_half("0f3F801000") == 0x3c00, "1 + 2^-11, a tie");
  EXPECT(to_half("0f3F803000") == 0x3c02, "1 + 3 * 2^-11, a tie");
  EXPECT(to_half("0f3FFFF000") == 0x4000, "a carry into the exponent");
  EXPECT(to_half("0f477FEFFF") == 0x7bff && to_half("0f477FF000") == 0x7c00, "around 65520");
  EXPECT(to_half("0f33000000") == 0 && to_half("0f33000001") == 1, "around half of the least number");
  EXPECT(to_half("0f33C00000") == 2, "1.5 of the least number, a tie");
  EXPECT(to_half("0f387FE000") == 0x400 && to_half("0f387FC000") == 0x3ff, "around the least normal number");
  EXPECT(to_half("0fC0000000") == 0xc000 && to_half("0f80000000") == 0x8000, "signs");
  EXPECT(to_half("0fFF800000") == 0xfc00 && (to_half("0f7FC00000") & 0x7fff) > 0x7c00, "infinity and NaN");
  for (const auto& [half, bits] : std::vector<std::pair<std::string, uint32_t>>{{"1", 0x33800000},
                                                                                {"0x3ff", 0x387fc000},
                                                                                {"0x3c01", 0x3f802000},
                                                                                {"0xfbff", 0xc77fe000},
                                                                                {"0x7c00", 0x7f800000}}) {
    expect_result("mov.u16 %rs10, " + half + ";\ncvt.f32.f16 %r10, %rs10;", bits);
  }
  const auto to_bfloat = [](const std::string& bits) {
    return result_of("cvt.rn.bf16.f32 %rs10, " + bits + ";\nmov.b32 %r10, {%rs10, 0};");
  };
  EXPECT(to_bfloat("0f3F808000") == 0x3f80 && to_bfloat("0f3F808001") == 0x3f81, "around a tie");
  EXPECT(to_bfloat("0fBF818000") == 0xbf82 && to_bfloat("0f3FFF8000") == 0x4000, "ties to even");
  EXPECT(to_bfloat("0f7F7F8000") == 0x7f80 && to_bfloat("0fFF800000") == 0xff80, "infinities");
  EXPECT(to_bfloat("0f00018000") == 2 && to_bfloat("0f80000000") == 0x8000, "subnormal numbers");
  EXPECT((to_bfloat("0fFFC00000") & 0x7fff) > 0x7f80, "NaN");
  expect_result("cvt.rna.tf32.f32 %r10, 0f3F800FFF;", 0x3f800000);
  expect_result("cvt.rna.tf32.f32 %r10, 0f3F801000;", 0x3f802000);
  expect_result("cvt.rna.tf32.f32 %r10, 0fBF803000;", 0xbf804000);
  expect_result("cvt.rna.tf32.f32 %r10, 0f3FFFF000;", 0x40000000);
  expect_result("cvt.rna.tf32.f32 %r10, 0f00001000;", 0x00002000);  // a subnormal
  expect_result("cvt.rna.tf32.f32 %r10, 0fFF800000;", 0xff800000);
}

TEST(pairs_of_narrow_floats) {
  const auto result_of_pair = [](const std::string& name, const std::string& operands) {
    return result_of(name + " %r10, " + operands + ";");
  };
  EXPECT(result_of_pair("sub.f16x2", "0x640f6401, 0x64056403") == 0x4900c000u, "10 and -2");
  EXPECT(result_of_pair("mul.f16x2", "0x4900c000, 0x3c002e66") == 0x4900b266u, "10 * 1 and -2 * 0.09998");
  EXPECT(result_of_pair("mul.f16x2", "0x7bff0001, 0x40003800") == 0x7c000000u, "overflow, and a tie to even");
  EXPECT(result_of_pair("fma.rn.bf16x2", "0x430f4301, 0x3f803f80, 0xc305c303") == 0x4120c000u, "10 and -2");
  EXPECT(result_of_pair("fma.rn.bf16x2", "0x412041c8, 0x3dcd3f81, 0x80008000") == 0x3f8041cau, "1 and 25.25");
}

TEST(lanes_part_and_meet) {
  Kernel kernel;
  kernel.body =
      "mov.u32 %r10, 0;\nmov.u32 %r11, 0;\n"
      "loop:\nsetp.ge.u32 %p10, %r11, %r1;\n@%p10 bra done;\n"
      "add.s32 %r10, %r10, %r11;\nadd.s32 %r11, %r11, 1;\nbra.uni loop;\n"
      "done:\nst.shared.u32 [%r2], %r10;\nbar.sync 0;\n"
      "sub.s32 %r12, 63, %r1;\nmov.u32 %r13, memory;\nmad.lo.s32 %r13, %r12, 4, %r13;\n"
      "ld.shared.u32 %r14, [%r13];\nst.global.u32 [%rd2], %r14;";
  for (kernel.order = 0; kernel.order < 4; ++kernel.order) {
    kernel.run();
    for (uint32_t i = 0; i < 64; ++i) {
      EXPECT(kernel.numbers[i] == (63 - i) * (62 - i) / 2 * (i < 63), i, ": ", kernel.numbers[i]);
    }
  }
}

TEST(what_is_not_known_is_refused) {
  expect_error("", "");
  expect_error("add.sat.s32 %r10, 1, 1;", "an unknown instruction add.sat.s32");
  expect_error("add.s32 %r10, %rd1, 1;", "the type of %rd1");
  expect_error("add.s32 %r10, 1;", "too few operands");
  expect_error("mov.u32 %r10, %clock;", "an unknown register %clock");
  expect_error("mov.u32 %r10, somewhere;", "an unknown operand somewhere");
  expect_error("bra nowhere;", "no label nowhere");
  expect_error(".maxnreg 32", "an unknown directive");
}

TEST(addresses) {
  expect_error("st.global.u32 [%rd2+4], 1;", "4 bytes at");  // thread 63
  expect_error("ld.global.u32 %r10, [%rd1+-4];", "are not in global memory");
  expect_error("ld.global.v2.u32 {%r10, %r11}, [%rd1+4];", "is misaligned");
  expect_error("st.shared.u32 [%r2+1024], 1;", "are not in shared memory");
  expect_error("st.shared.u32 [%r2+768], 1;", "");
  expect_error("ld.param.u32 %r10, [kernel_param_0+8];", "are not in parameter memory");
  expect_error("mov.u64 %rd10, depot;\nst.local.u32 [%rd10+32], 1;", "are not in local memory");
  expect_error("mov.u64 %rd10, 0;\nld.global.u32 %r10, [%rd10];", "are not in global memory");
}

TEST(nothing_depends_on_what_was_never_written) {
  expect_error("st.global.u32 [%rd2], %r10;", "");
  expect_error("setp.eq.s32 %p10, %r10, 0;\n@%p10 st.global.u32 [%rd2], 1;", "a value that was never written");
  expect_error(
      "setp.eq.s32 %p10, %r10, 0;\nsetp.ne.s32 %p11, %r1, %r1;\nand.pred %p12, %p10, %p11;\n"
      "@%p12 st.global.u32 [%rd2], 1;",
      "");
  expect_error("ld.global.u32 %r10, [%rd10];", "an address depends on a value that was never written");
  expect_error("ld.shared.u32 %r10, [%r2];\nst.shared.u32 [%r10], 1;", "an address depends");
  expect_error("mov.u64 %rd10, depot;\nld.local.u32 %r10, [%rd10];\nst.shared.u32 [%r10], 1;", "an address depends");
  expect_error("ld.global.u32 %r10, [%rd2];\nst.shared.u32 [%r10], 1;", "an address depends", 1, Content::kUndefined);
  expect_error("st.global.u32 [%rd2], %r10;", "part of a result", 1, Content::kResult);
  expect_error("setp.eq.s32 %p10, %r1, %r1;\nselp.b32 %r11, %r2, %r10, %p10;\nst.shared.u32 [%r11], 1;", "");
}

TEST(races) {
  const std::string write = "st.shared.u32 [%r2], %r1;\n", barrier = "bar.sync 0;\n";
  const std::string read = "xor.b32 %r10, %r2, 4;\nld.shared.u32 %r11, [%r10];\n";  // of the neighbour
  expect_error(write + barrier + read, "");
  expect_error(write + read, "which another thread writes");
  expect_error(write + barrier + read + write, "which another thread reads");
  expect_error(write + barrier + read + barrier + write, "");
  expect_error("mov.u32 %r10, memory;\nst.shared.u32 [%r10], 1;", "which another thread writes, too");
  expect_error("st.global.u32 [%rd1], 1;", "which another thread writes, too");
  expect_error("st.global.u32 [%rd2], 1;", "");
  expect_error("st.global.u32 [%rd2], 1;", "which another thread writes, too", 2);
  expect_error("ld.global.u32 %r10, [%rd1];", "", 2);
  expect_error("ld.global.u32 %r10, [%rd1];\n" + barrier + "st.global.u32 [%rd2], 1;", "which another thread writes",
               2);
  expect_error("atom.global.or.b32 %r10, [%rd1], %r1;", "", 2);
  expect_error("atom.relaxed.gpu.global.or.b32 %r10, [%rd1], %r1;", "", 2);
  expect_error("red.or.b32 [%rd1], %r1;", "", 2);
  expect_error("atom.acquire.gpu.global.or.b32 %r10, [%rd1], %r1;", "an unknown instruction", 2);
  expect_error("atom.global.or.b32 %r10, [%rd1], %r1;\nld.global.u32 %r11, [%rd1];", "which another thread", 2);
}

TEST(barriers) {
  expect_error("setp.lt.u32 %p10, %r1, 32;\n@%p10 bra over;\nbar.sync 0;\nover:", "a barrier that only 1 of 2 warps");
  expect_error("setp.lt.u32 %p10, %r1, 3;\n@%p10 bra over;\nbar.sync 0;\nover:", "not all lanes of the warp");
  expect_error("setp.lt.u32 %p10, %r1, 3;\n@%p10 ret;\nbar.sync 0;", "not all lanes of the warp");
  expect_error("bar.sync 0;\nsetp.lt.u32 %p10, %r1, 3;\n@%p10 ret;", "");
}

TEST(copies_are_asynchronous) {
  const std::string copy = "mov.u32 %r10, 4;\ncp.async.ca.shared.global [%r2], [%rd2], 4, %r10;\n";
  const std::string commit = "cp.async.commit_group;\n", wait = "cp.async.wait_group 0;\n";
  const std::string read = "ld.shared.u32 %r11, [%r2];\n";
  const std::string pending = "asynchronous copy that was not waited for";
  expect_error(copy + commit + wait + read, "");
  expect_error(copy + commit + read, pending);
  expect_error(copy + wait + read, pending);  // of no group yet
  expect_error(copy + commit + commit + "cp.async.wait_group 2;\n" + read, pending);
  expect_error(copy + commit + commit + "cp.async.wait_group 1;\n" + read, "");
  expect_error(copy + commit + "st.shared.u32 [%r2], 1;\n" + wait, pending);
  expect_error(copy + commit + wait + "xor.b32 %r12, %r2, 4;\nld.shared.u32 %r11, [%r12];",
               "which another thread writes");
  expect_error("cp.async.cg.shared.global [%r2], [%rd2], 16, 16;", "misaligned");
  expect_error("cp.async.ca.shared.global [%r2], [%rd2], 4, 8;", "more bytes of the source");
  expect_error("cp.async.ca.shared.global [%r2], [%rd2+1024], 4, 4;", "are not in global memory");
  expect_error("cp.async.ca.shared.global [%r2], [%rd2+1024], 4, 0;", "");

  Kernel kernel;  // what is there at the wait is what is copied; of bytes that are left out, zeros
  kernel.body = copy + commit + "st.global.u32 [%rd2], 9;\n" + wait + read +
                "cp.async.ca.shared.global [%r2], [%rd2], 4, 0;\n" + commit + wait +
                "ld.shared.u32 %r12, [%r2];\nmad.lo.s32 %r11, %r12, 100, %r11;\nst.global.u32 [%rd2], %r11;";
  kernel.run();
  for (const uint32_t number : kernel.numbers) EXPECT(number == 9, number);
}

}  // namespace
}  // namespace ortconv::cuda::ptx
