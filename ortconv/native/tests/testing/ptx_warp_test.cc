// Matrices of a warp against loops over rows and columns; places are those that the PTX ISA gives for fragments.
#include <functional>
#include <random>

#include "testing/ptx/operations.h"
#include "tests/testing/ptx_test.h"

namespace ortconv::cuda::ptx {
namespace {

// A fragment's element i of a lane is in register i / per_register, and in the matrix at row(i), column(i).
struct Fragment {
  int registers, per_register;
  std::function<int(int g, int t, int i)> row, column;
};

using Matrix = std::vector<std::vector<float>>;

Matrix random_matrix(int rows, int columns, std::mt19937* random) {
  Matrix matrix(static_cast<size_t>(rows), std::vector<float>(static_cast<size_t>(columns)));
  for (auto& row : matrix) {
    for (float& value : row) value = static_cast<float>(static_cast<int>((*random)() % 17) - 8);
  }
  return matrix;
}

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

uint32_t half_bits(float value) { return float_to_half(value); }
uint32_t bfloat_bits(float value) { return bits_of(value) >> 16; }
uint32_t integer_bits(float value) { return static_cast<uint32_t>(static_cast<int32_t>(value)); }
uint32_t byte_bits(float value) { return integer_bits(value) & 0xff; }

// The registers of all lanes, one lane after the other.
std::vector<uint32_t> registers_of(const Matrix& matrix, const Fragment& fragment, uint32_t (*encode)(float)) {
  std::vector<uint32_t> all;
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < fragment.registers; ++r) {
      uint32_t bits = 0;
      for (int e = 0; e < fragment.per_register; ++e) {
        const int i = r * fragment.per_register + e, row = fragment.row(lane / 4, lane % 4, i);
        const float value =
            matrix[static_cast<size_t>(row)][static_cast<size_t>(fragment.column(lane / 4, lane % 4, i))];
        bits |= encode(value) << (e * 32 / fragment.per_register);
      }
      all.push_back(bits);
    }
  }
  return all;
}

std::string registers(int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += (i == 0 ? "%r" : ", %r") + std::to_string(first + i);
  return text + "}";
}

struct Product {
  std::string types;  // as the instruction names them
  int rows, depth;
  Fragment a, b;
  uint32_t (*encode)(float);
  uint32_t (*encode_sum)(float) = bits_of;
  float least_right = -8;
};

// The fragments are loaded from, and the result stored to, one array: of a, b and c in turn.
void check_product(const Product& p) {
  const int sums_of_lane = p.rows / 4;
  const Fragment c{sums_of_lane, 1, [](int g, int, int i) { return i < 2 ? g : g + 8; },
                   [](int, int t, int i) { return t * 2 + i % 2; }};
  std::mt19937 random(3);
  const Matrix left = random_matrix(p.rows, p.depth, &random), sums = random_matrix(p.rows, 8, &random);
  Matrix right = random_matrix(p.depth, 8, &random);
  for (auto& row : right) {
    for (float& value : row) value += p.least_right + 8;
  }
  Kernel kernel;
  kernel.threads = 32;
  kernel.numbers.clear();
  int number = 10;
  for (const auto& [fragment, values] :
       {std::make_pair(p.a, registers_of(left, p.a, p.encode)), std::make_pair(p.b, registers_of(right, p.b, p.encode)),
        std::make_pair(c, registers_of(sums, c, p.encode_sum))}) {
    const size_t begin = kernel.numbers.size() * 4;
    kernel.numbers.insert(kernel.numbers.end(), values.begin(), values.end());
    kernel.body += "mul.wide.u32 %rd10, %r1, " + std::to_string(fragment.registers * 4) + ";\n";
    kernel.body += "add.s64 %rd11, %rd1, %rd10;\n";
    for (int r = 0; r < fragment.registers; ++r) {
      kernel.body += "ld.global.u32 %r" + std::to_string(number++) + ", [%rd11+" +
                     std::to_string(begin + static_cast<size_t>(r) * 4) + "];\n";
    }
  }
  const int first_b = 10 + p.a.registers, first_c = first_b + p.b.registers;
  kernel.body += "mma.sync.aligned.m" + std::to_string(p.rows) + "n8k" + std::to_string(p.depth) + ".row.col." +
                 p.types + ' ' + registers(first_c, sums_of_lane) + ", " + registers(10, p.a.registers) + ", " +
                 registers(first_b, p.b.registers) + ", " + registers(first_c, sums_of_lane) + ";\n";
  const size_t begin = kernel.numbers.size() - static_cast<size_t>(32 * sums_of_lane);
  for (int r = 0; r < sums_of_lane; ++r) {
    kernel.body += "st.global.u32 [%rd11+" + std::to_string(begin * 4 + static_cast<size_t>(r) * 4) + "], %r" +
                   std::to_string(first_c + r) + ";\n";
  }
  kernel.run();
  Matrix product = sums;
  for (size_t i = 0; i < static_cast<size_t>(p.rows); ++i) {
    for (size_t j = 0; j < 8; ++j) {
      for (size_t k = 0; k < static_cast<size_t>(p.depth); ++k) product[i][j] += left[i][k] * right[k][j];
    }
  }
  const std::vector<uint32_t> expected = registers_of(product, c, p.encode_sum);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT(kernel.numbers[begin + i] == expected[i], p.types, " depth ", p.depth, ", register ", i);
  }
}

TEST(products) {
  const auto column_g = [](int g, int, int) { return g; };
  const Fragment a16{4, 2, [](int g, int, int i) { return i < 2 || (4 <= i && i < 6) ? g : g + 8; },
                     [](int, int t, int i) { return t * 2 + i % 2 + (i < 4 ? 0 : 8); }};
  const Fragment b16{2, 2, [](int, int t, int i) { return t * 2 + i % 2 + (i < 2 ? 0 : 8); }, column_g};
  check_product({"f32.f16.f16.f32", 16, 16, a16, b16, half_bits});
  check_product({"f32.bf16.bf16.f32", 16, 16, a16, b16, bfloat_bits});
  const Fragment a8{2, 2, [](int g, int, int i) { return i < 2 ? g : g + 8; },
                    [](int, int t, int i) { return t * 2 + i % 2; }};
  const Fragment b8{1, 2, [](int, int t, int i) { return t * 2 + i; }, column_g};
  check_product({"f32.f16.f16.f32", 16, 8, a8, b8, half_bits});
  const Fragment a_tf32{4, 1, [](int g, int, int i) { return i == 0 || i == 2 ? g : g + 8; },
                        [](int, int t, int i) { return i < 2 ? t : t + 4; }};
  const Fragment b_tf32{2, 1, [](int, int t, int i) { return i == 0 ? t : t + 4; }, column_g};
  check_product({"f32.tf32.tf32.f32", 16, 8, a_tf32, b_tf32, bits_of});

  // Of integers, whose places are as those of 16 bits with two in the place of one.
  const Fragment a32{4, 4, [](int g, int, int i) { return i < 4 || (8 <= i && i < 12) ? g : g + 8; },
                     [](int, int t, int i) { return t * 4 + i % 4 + (i < 8 ? 0 : 16); }};
  const Fragment b32{2, 4, [](int, int t, int i) { return t * 4 + i % 4 + (i < 4 ? 0 : 16); }, column_g};
  const Fragment a_row{1, 4, column_g, [](int, int t, int i) { return t * 4 + i; }};
  const Fragment b_column{1, 4, [](int, int t, int i) { return t * 4 + i; }, column_g};
  for (const auto& [types, least] : {std::make_pair("s32.s8.s8.s32", -8.0f), std::make_pair("s32.s8.u8.s32", 200.0f)}) {
    check_product({types, 16, 32, a32, b32, byte_bits, integer_bits, least});
    check_product({types, 8, 16, a_row, b_column, byte_bits, integer_bits, least});
  }
}

const char* const kMma =
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r10, %r11, %r12, %r13}, {%r14, %r14, %r14, %r14}, {%r14, "
    "%r14}, "
    "{%r10, %r11, %r12, %r13};\n";

TEST(rules_of_products) {
  const std::string one = "mov.u32 %r14, 0x3f800000;\n";
  expect_error(one + kMma, "");
  expect_error(one + "setp.lt.u32 %p10, %r1, 32;\n@%p10 bra over;\n" + kMma + "over:", "");
  expect_error(one + "setp.lt.u32 %p10, %r1, 5;\n@%p10 bra over;\n" + kMma + "over:", "not all lanes of the warp");
  expect_error(one + "setp.lt.u32 %p10, %r1, 5;\n@%p10 " + kMma, "a predicate on an instruction of the whole warp");
  expect_error("mov.u32 %r14, 0x3f800001;\n" + std::string(kMma), "no TF32 number");
  // A row of a that was never written leaves the others as they are.
  const std::string part = "mov.u32 %r10, 0;\nmov.u32 %r11, 0;\nmov.u32 %r12, 0;\nmov.u32 %r13, 0;\n";
  const std::string rows =
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r10, %r11, %r12, %r13}, {%r14, %r15, %r14, %r15}, {%r14, "
      "%r14}, {%r10, %r11, %r12, %r13};\n";
  const std::string use = "setp.eq.s32 %p10, %r10, 0;\n@%p10 bra over;\nover:", lower = "setp.eq.s32 %p10, %r12, 0;\n";
  expect_error(one + part + rows + use, "");
  expect_error(one + part + rows + lower + "@%p10 bra over;\nover:", "never written");
}

// Halves 0, 1, 2, ... in shared memory; lane l points at the row of 8 that begins at 8 * l.
TEST(matrices_are_loaded) {
  Kernel kernel;
  kernel.threads = 32;
  kernel.numbers.resize(128);
  kernel.body = "mov.u32 %r10, memory;\nmad.lo.s32 %r11, %r1, 16, %r10;\n";
  for (int pair = 0; pair < 4; ++pair) {
    const std::string at = std::to_string(pair * 4);
    kernel.body += "mad.lo.s32 %r12, %r1, 8, " + std::to_string(pair * 2) + ";\nadd.s32 %r13, %r12, 1;\n" +
                   "shl.b32 %r13, %r13, 16;\nor.b32 %r12, %r12, %r13;\nst.shared.u32 [%r11+" + at + "], %r12;\n";
  }
  kernel.body +=
      "bar.sync 0;\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r11];\n"
      "mul.wide.u32 %rd10, %r1, 16;\nadd.s64 %rd11, %rd1, %rd10;\n"
      "st.global.v4.u32 [%rd11], {%r20, %r21, %r22, %r23};";
  kernel.run();
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t matrix = 0; matrix < 4; ++matrix) {
      const uint32_t low = matrix * 64 + lane / 4 * 8 + lane % 4 * 2, found = kernel.numbers[lane * 4 + matrix];
      EXPECT(found == (low | (low + 1) << 16), "lane ", lane, " matrix ", matrix, ": ", found);
    }
  }
  expect_error("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r2];", "is misaligned");
}

TEST(numbers_are_exchanged) {
  for (const uint32_t mask : {1u, 6u, 16u, 31u}) {
    Kernel kernel;
    kernel.body = "mul.lo.u32 %r10, %r1, 3;\nshfl.sync.bfly.b32 %r11, %r10, " + std::to_string(mask) +
                  ", 31, 0xffffffff;\nst.global.u32 [%rd2], %r11;";
    kernel.run();
    for (uint32_t thread = 0; thread < 64; ++thread) {
      EXPECT(kernel.numbers[thread] == (thread ^ mask) * 3, "mask ", mask, " thread ", thread);
    }
  }
  const std::string exchange = "shfl.sync.bfly.b32 %r11, %r1, 1, 31, 0xffffffff;\n";
  expect_error("setp.lt.u32 %p10, %r1, 5;\n@%p10 bra over;\n" + exchange + "over:", "not all lanes of the warp");
  expect_error("shfl.sync.bfly.b32 %r11, %r1, 1, 31, 0x0000ffff;\n", "an exchange among fewer lanes");
  expect_error("shfl.sync.bfly.b32 %r11, %r1, 1, 7199, 0xffffffff;\n", "an exchange among fewer lanes");
  // Of a lane that has none.
  const std::string some =
      "setp.eq.u32 %p10, %r1, 7;\n@%p10 bra all;\nmov.u32 %r10, 0;\nall:\n"
      "shfl.sync.bfly.b32 %r11, %r10, 1, 31, 0xffffffff;\nsetp.eq.u32 %p11, %r1, ";
  const std::string use = ";\n@!%p11 bra over;\nsetp.eq.s32 %p12, %r11, 0;\n@%p12 bra over;\nover:";
  expect_error(some + "7" + use, "");
  expect_error(some + "6" + use, "never written");
}

}  // namespace
}  // namespace ortconv::cuda::ptx
