#include "testing/cuda/cuda_node.h"

#include <memory>
#include <sstream>

extern "C" OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base);

namespace ortconv::test {

std::string text_of(OrtStatus* status) {
  const std::unique_ptr<OrtStatus> owned(status);
  return status != nullptr ? status->message : "";
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

int calls(const std::string& function) {
  std::istringstream lines(fake_log());
  int found = 0;
  for (std::string line; std::getline(lines, line);) found += line.substr(0, line.find(' ')) == function;
  return found;
}

void expect_only_launches(const std::string& log) {
  std::istringstream lines(log);
  const std::string stream = describe("stream ", kStream);
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(0, line.find(' '));
    const bool allowed = name == "cuCtxGetCurrent" || name == "cuCtxPushCurrent" || name == "cuCtxPopCurrent" ||
                         (name == "cuLaunchKernel" && count(line, stream) == 1);
    EXPECT(allowed, line);
  }
  EXPECT(count(log, "cuLaunchKernel") > 0, log);
}

std::vector<const OrtCustomOp*> registered(OrtSessionOptions* options) {
  EXPECT(text_of(RegisterCustomOps(options, fake_ort_base())).empty(), "registration");
  return options->domains.at(0)->ops;
}

const OrtCustomOp* cuda_op(ConvOp op, DataType dtype, bool tf32) {
  static const std::vector<const OrtCustomOp*> all[] = {
      [] {
        OrtSessionOptions options;
        return registered(&options);
      }(),
      [] {
        OrtSessionOptions options;
        options.config["ortconv.cuda.use_tf32"] = "1";
        return registered(&options);
      }(),
  };
  const char* const names[] = {"TransposedConvolution", "TransposedConvolutionToShape", "Convolution",
                               "TransposedConvolutionAdd"};
  for (const OrtCustomOp* const found : all[tf32]) {
    if (std::string(found->GetName(found)) != names[static_cast<int>(op)]) continue;
    if (std::string(found->GetExecutionProviderType(found)) != "CUDAExecutionProvider") continue;
    if (found->GetInputType(found, 0) == static_cast<int>(dtype)) return found;
  }
  return nullptr;
}

Case small_case() {
  Case c;
  c.attributes = attributes(ConvOp::kConvTranspose, 2);
  c.attributes.strides = {2, 2};
  c.attributes.pads = {1, 0, 0, 1};
  c.x = {1, 32, 5, 6};
  c.w = {32, 24, 3, 3};
  return c;
}
}  // namespace ortconv::test
