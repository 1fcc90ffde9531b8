#include "ep/report.h"

#include <string>

#include "ops/choice_log.h"

namespace ortconv::ep {
namespace {

std::string list_of(const std::vector<std::string>& texts) {
  std::string json = "[";
  for (const std::string& text : texts) json += (json.size() == 1 ? "" : ", ") + quoted(text);
  return json + "]";
}

}  // namespace

void report(const std::string& file, const Node& node, const Outcome& outcome) {
  if (file.empty()) return;
  std::vector<std::string> fused;
  for (const Node& each : outcome.fused) fused.push_back(each.op_type() + " " + each.name());
  append_line(file, "{\"node\": " + quoted(node.name()) + ", \"domain\": " + quoted(node.domain()) +
                        ", \"op_type\": " + quoted(node.op_type()) + ", \"fused\": " + list_of(fused) +
                        ", \"kept\": " + list_of(outcome.kept) + ", \"reason\": " + quoted(outcome.reason) +
                        ", \"ours\": " + std::to_string(outcome.estimates.ours) +
                        ", \"onnxruntime\": " + std::to_string(outcome.estimates.onnxruntime) + "}");
}

}  // namespace ortconv::ep
