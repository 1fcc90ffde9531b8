// Products by compressed weights in the CUDA provider as ONNX Runtime meets them: on the fake GPU, against the
// definition; exact.
#include <cmath>
#include <random>

#include "kernels/matmul_nbits/codes.h"
#include "ort/providers.h"
#include "testing/cuda/cuda_node.h"

namespace ortconv {
namespace {

using kernels::Code;
using test::calls;
using test::count;
using test::GpuTensor;
using test::kA100;
using test::kStream;
using test::text_of;

constexpr Code kCodes[] = {Code::kU8, Code::kS8, Code::kU4, Code::kS4, Code::kTable};
constexpr int kCodeTypes[] = {2, 3, 21, 22, 21};
const std::vector<float> kNumbers = {-7, 0.25f, -0.0f, 3, 0.5f, -1, 2.5f, 6, -0.5f, 7, 0, -4, 1, 0.75f, -3.5f, 5};

struct Product {
  Code code = Code::kU4;
  int64_t m = 3, n = 20, k = 64, block = 32;
  bool has_zeros = true, known_shapes = false;
  int64_t skew = 0;  // elements of X before its first one
  int device = 0;
  int64_t matrices = 0, slots = 1;  // matrices, if any: the products are those of an index [m, slots]
  bool is_shared = false;           // whether a row of X serves all of its slots
};

const OrtCustomOp* product_op(DataType dtype, Code code, bool gathers = false) {
  static OrtSessionOptions options;
  static const auto ops = test::registered(&options);
  for (const OrtCustomOp* const op : ops) {
    const std::string name = code == Code::kTable ? "MatMulCodebook" : "MatMulCompressed";
    if (op->GetName(op) != (gathers ? "Gather" + name : name)) continue;
    if (std::string(op->GetExecutionProviderType(op)) != "CUDAExecutionProvider") continue;
    const bool is_ours = op->GetInputType(op, 0) == static_cast<int>(dtype) &&
                         op->GetInputType(op, 1) == kCodeTypes[static_cast<int>(code)];
    if (is_ours) return op;
  }
  return nullptr;
}

// A node, its inputs and the expected result.
template <class T>
class ProductNode {
 public:
  ProductNode(DataType dtype, const Product& p, unsigned seed)
      : p_(p),
        op_(product_op(dtype, p.code, gathers())),
        random_(seed),
        blocks_(p.k / p.block),
        columns_(p.n * (gathers() ? p.matrices : 1)),
        codes_(draw(columns_ * p.k)),
        zeros_(draw(columns_ * blocks_)),
        index_values_(draw_index()),
        x_values_(draw_floats(p.skew + p.m * rows_of_each() * p.k, false)),
        scale_values_(draw_floats(columns_ * blocks_, true)),
        x_(dtype, {p.skew + p.m * rows_of_each() * p.k}, x_values_, p.device),
        data_(type(), weights(p.k), packed(codes_), p.device),
        scale_(dtype, weights(blocks_), scale_values_, p.device),
        index_(DataType::kInt64, {p.m, p.slots}, index_values_, p.device),
        zero_(type(), weights(blocks_), packed(zeros_), p.device),
        codebook_(DataType::kFloat, {static_cast<int64_t>(kNumbers.size())}, kNumbers, p.device),
        skewed_(*x_.value()) {
    skewed_.dims = {p.m, p.k};
    if (gathers()) skewed_.dims = {p.m, rows_of_each(), p.k};
    skewed_.data = static_cast<T*>(skewed_.data) + p.skew;
    info_.block_size = p.block;
    info_.memory = test::gpu_memory(p.device);
    declare();
  }
  ~ProductNode() {
    if (kernel_ != nullptr) op_->KernelDestroy(kernel_);
  }
  ProductNode(const ProductNode&) = delete;
  ProductNode& operator=(const ProductNode&) = delete;

  // Each returns what is wrong.
  std::string create() { return text_of(op_->CreateKernelV2(op_, test::fake_ort(), &info_, &kernel_)); }
  std::string enqueue(OrtKernelContext* context) {
    context->memory = test::gpu_memory(p_.device);
    context->stream = kStream;
    context->inputs = inputs();
    return text_of(op_->KernelComputeV2(kernel_, context));
  }
  std::string check() {
    OrtKernelContext context;
    const std::string problem = enqueue(&context);
    if (!problem.empty()) return problem;
    fake_drain(kStream);
    std::vector<T> y(context.y_bytes / sizeof(T));
    fake_copy(y.data(), context.y->data, context.y_bytes);
    fake_free(context.y->data);
    const Shape shape = gathers() ? Shape{p_.m, p_.slots, p_.n} : Shape{p_.m, p_.n};
    if (context.y->dims != shape) return "shape " + to_string(context.y->dims);
    for (int64_t i = 0; i < p_.m * p_.slots * p_.n; ++i) {
      const double expected = test::widen(test::narrow<T>(element(i / p_.n, i % p_.n)));
      if (test::widen(y[i]) != expected) {
        return test::describe("element ", i, " is ", test::widen(y[i]), " not ", expected);
      }
    }
    return "";
  }
  // The scales get another shape.
  void spoil() {
    bad_scale_ = *scale_.value(), bad_scale_.dims = {p_.n, blocks_ + 1}, spoiled_ = true;
    declare();
  }

 private:
  // What is known of the inputs when the kernel is created.
  void declare() {
    info_.inputs.clear();
    for (const OrtValue* value : inputs()) {
      if (value == nullptr) continue;  // the last one, which the node does not have
      const Shape open(value->dims.size(), -1);
      info_.inputs.push_back({OrtTensorTypeAndShapeInfo{value->type, p_.known_shapes ? value->dims : open}, nullptr});
    }
  }

  bool gathers() const { return p_.matrices > 0; }
  bool has_codebook() const { return p_.code == Code::kTable; }
  int64_t rows_of_each() const { return p_.is_shared ? 1 : p_.slots; }
  Shape weights(int64_t columns) const { return gathers() ? Shape{p_.matrices, p_.n, columns} : Shape{p_.n, columns}; }

  // Some of them name no matrix.
  std::vector<int64_t> draw_index() {
    std::vector<int64_t> values(p_.m * p_.slots);
    for (int64_t& value : values) value = static_cast<int64_t>(random_() % (p_.matrices + 2)) - 1;
    return values;
  }

  DataType type() const { return static_cast<DataType>(kCodeTypes[static_cast<int>(p_.code)]); }

  std::vector<int> draw(int64_t count) {
    const int number = 1 << kernels::bits_of(p_.code), least = kernels::is_signed(p_.code) ? -number / 2 : 0;
    std::vector<int> values(count);
    for (int& value : values) value = least + static_cast<int>(random_() % number);
    return values;
  }

  // Integers from -3 to 3, or without a mantissa: then weights, which may be rounded, are exact.
  std::vector<T> draw_floats(int64_t count, bool only_powers) {
    std::vector<T> values;
    for (int64_t i = 0; i < count; ++i) {
      const double integer = static_cast<int>(random_() % 7) - 3, power = 1.0 / static_cast<double>(1 << random_() % 4);
      values.push_back(test::narrow<T>(only_powers ? std::copysign(power, integer) : integer));
    }
    return values;
  }

  std::vector<uint8_t> packed(const std::vector<int>& values) const {
    const int bits = kernels::bits_of(p_.code);
    std::vector<uint8_t> bytes((values.size() * bits + 7) / 8);
    for (size_t i = 0; i < values.size(); ++i) {
      const int stored = (values[i] & ((1 << bits) - 1)) << i * bits % 8;
      bytes[i * bits / 8] = static_cast<uint8_t>(bytes[i * bits / 8] | stored);
    }
    return bytes;
  }

  std::vector<const OrtValue*> inputs() const {
    std::vector<const OrtValue*> all = {&skewed_, data_.value(), spoiled_ ? &bad_scale_ : scale_.value()};
    if (gathers()) all.push_back(index_.value());
    all.push_back(has_codebook() ? codebook_.value() : p_.has_zeros ? zero_.value() : nullptr);
    return all;
  }

  double element(int64_t row, int64_t column) const {
    double sum = 0;
    if (gathers()) {
      const int64_t named = index_values_[row];
      if (named < 0 || named >= p_.matrices) return 0;
      column += named * p_.n;
      if (p_.is_shared) row /= p_.slots;
    }
    for (int64_t k = 0; k < p_.k; ++k) {
      const int64_t block = column * blocks_ + k / p_.block;
      const int code = codes_[column * p_.k + k];
      const double difference =
          has_codebook() ? static_cast<double>(kNumbers[code]) : code - (p_.has_zeros ? zeros_[block] : 0);
      sum += difference * test::widen(scale_values_[block]) * test::widen(x_values_[p_.skew + row * p_.k + k]);
    }
    return sum;
  }

  Product p_;
  const OrtCustomOp* op_;
  std::mt19937 random_;
  int64_t blocks_, columns_;  // columns of all matrices
  std::vector<int> codes_, zeros_;
  std::vector<int64_t> index_values_;
  std::vector<T> x_values_, scale_values_;
  GpuTensor x_, data_, scale_, index_, zero_, codebook_;
  OrtValue skewed_, bad_scale_{};
  bool spoiled_ = false;
  OrtKernelInfo info_;
  void* kernel_ = nullptr;
};

template <class Fn>
void with_product_type(DataType dtype, Fn&& fn) {
  if (dtype == DataType::kFloat) fn(float());
  if (dtype == DataType::kFloat16) fn(Float16());
  if (dtype == DataType::kBfloat16) fn(Bfloat16());
}

TEST(products_by_compressed_weights) {
  const FakeGpu gpus[] = {{75, 2, 64 << 10, 13020}, kA100, {90, 2, 227 << 10, 13020}, {120, 3, 99 << 10, 13020}};
  std::mt19937 random(3);
  for (int i = 0; i < 96 / test::kShare; ++i) {
    fake_configure(&gpus[i % 4]);
    fake_defer(i % 3 == 0);
    Product p;
    p.device = 50 + i % 4;
    p.code = kCodes[i / 4 % 5];
    constexpr int64_t kRows[] = {0, 1, 1, 3, 8, 20, 70}, kBlocks[] = {1, 5, 16, 32, 100};
    p.m = kRows[random() % 7];
    p.n = random() % 60;
    p.block = kBlocks[random() % 5];
    p.k = p.block * (1 + static_cast<int64_t>(random() % 5));
    p.has_zeros = random() % 2 == 0;
    p.known_shapes = random() % 2 == 0;
    p.skew = random() % 4 == 0 ? 1 : 0;
    if (random() % 2 == 0) {
      p.matrices = 1 + random() % 4;
      p.slots = 1 + random() % 3;
      p.is_shared = random() % 2 == 0;
    }
    const DataType dtype = kMatMulTypes[random() % std::size(kMatMulTypes)];
    with_product_type(dtype, [&](auto zero) {
      ProductNode<decltype(zero)> node(dtype, p, static_cast<unsigned>(i));
      std::string problem = node.create();
      if (problem.empty()) problem = node.check();
      EXPECT(problem.empty(), "type ", static_cast<int>(dtype), " code ", static_cast<int>(p.code), " m ", p.m, " n ",
             p.n, " k ", p.k, " block ", p.block, " skew ", p.skew, " matrices ", p.matrices, " slots ", p.slots, ": ",
             problem);
    });
  }
  fake_defer(false);
  fake_configure(&kA100);
  const test::Allocations left = test::allocations();
  EXPECT(left.blocks == 0 && left.allocators == 0, left.blocks, ' ', left.allocators);
}

// No compilation, no synchronization, no copy; with known shapes not even in the first run.
TEST(a_product_does_nothing_but_launch) {
  for (const int64_t m : {1, 70}) {
    for (const bool known_shapes : {true, false}) {
      Product p;
      p.m = m;
      p.known_shapes = known_shapes;
      ProductNode<float> node(DataType::kFloat, p, 1);
      EXPECT(node.create().empty(), "creation");
      std::string problem = known_shapes ? "" : node.check();
      fake_clear_log();
      if (problem.empty()) problem = node.check();
      EXPECT(problem.empty(), problem);
      test::expect_only_launches(fake_log());
      EXPECT(calls("cuLaunchKernel") >= (m == 1 ? 1 : 2), fake_log());
    }
  }
}

TEST(products_that_do_not_fit_are_refused) {
  for (const bool known_shapes : {false, true}) {  // when they run, in any case
    Product p;
    p.known_shapes = known_shapes;
    ProductNode<float> node(DataType::kFloat, p, 2);
    node.spoil();
    EXPECT(node.create().empty(), "creation");
    OrtKernelContext context;
    const std::string problem = node.enqueue(&context);
    EXPECT(count(problem, "MatMulCompressed 'node': input scale has shape [20, 3]; allowed: [20, 2]") == 1, problem);
  }
  OrtKernelInfo info;
  info.memory = test::gpu_memory(0);
  void* kernel = nullptr;
  const OrtCustomOp* const op = product_op(DataType::kFloat, Code::kU8);
  const std::string bad = text_of(op->CreateKernelV2(op, test::fake_ort(), &info, &kernel));
  EXPECT(count(bad, "block_size = 0 is not allowed; allowed: integers >= 1") == 1, bad);
}

TEST(failures_of_the_driver_are_errors_of_the_product) {
  int device = 30;
  for (const bool known_shapes : {false, true}) {
    for (const char* const function :
         {"cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuLaunchKernel"}) {
      Product p;
      p.device = device++;
      p.m = 70;
      p.known_shapes = known_shapes;
      ProductNode<float> node(DataType::kFloat, p, 3);
      fake_fail(function, 2, 0);
      std::string problem = node.create();
      const bool created = problem.empty();
      if (created) problem = node.check();
      fake_fail(nullptr, 0, 0);
      EXPECT(count(problem, "org.ortconv.MatMulCompressed 'node': ") == 1 && count(problem, "as the test wants") == 1,
             function, ": ", problem);
      // What is known is compiled when the kernel is created.
      const bool is_of_run = std::string(function) == "cuLaunchKernel";
      if (known_shapes) EXPECT(created == is_of_run, function, ": ", problem);
      if (!created) EXPECT(node.create().empty(), function, " again");
      problem = node.check();
      EXPECT(problem.empty(), function, " again: ", problem);
    }
  }
}

TEST(too_little_memory_is_an_error_of_the_product) {
  Product p;
  p.m = 70;
  ProductNode<float> node(DataType::kFloat, p, 4);
  EXPECT(node.create().empty(), "creation");
  test::limit_allocations(16);
  const std::string problem = node.check();
  test::limit_allocations(SIZE_MAX);
  EXPECT(count(problem, "there is no room for") == 1 && count(problem, "gpu_mem_limit") == 1, problem);
  EXPECT(node.check().empty(), "with room");
}

}  // namespace
}  // namespace ortconv
