#include "ops/choice_log.h"

#include <cstdint>
#include <fstream>
#include <mutex>
#include <sstream>

namespace ortconv {
namespace {

std::string list_of(const int64_t* sizes, int count) {
  std::ostringstream json;
  for (int a = 0; a < count; ++a) json << (a == 0 ? "[" : ", ") << sizes[a];
  json << "]";
  return json.str();
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    json += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return json + '"';
}

void append_line(const std::string& file, const std::string& line) {
  static std::mutex& mutex = *new std::mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  std::ofstream(file, std::ios::app) << line + "\n";
}

void log_choice(const std::string& file, const std::string& node, const ConvProblem& p, const std::string& chosen,
                const std::vector<LoggedEstimate>& estimates) {
  std::ostringstream json;
  json << "{\"node\": " << quoted(node) << ", \"batch\": " << p.mb << ", \"group\": " << p.g << ", \"inputs\": " << p.ic
       << ", \"outputs\": " << p.oc << ", \"src\": " << list_of(p.src_size, p.ndims)
       << ", \"dst\": " << list_of(p.dst_size, p.ndims) << ", \"kernel\": " << list_of(p.ker, p.ndims)
       << ", \"strides\": " << list_of(p.stride, p.ndims) << ", \"dilations\": " << list_of(p.dilation, p.ndims)
       << ", \"pads\": " << list_of(p.pad, p.ndims) << ", \"chosen\": " << quoted(chosen) << ", \"estimates\": [";
  const char* separator = "";
  for (const LoggedEstimate& each : estimates) {
    const implementations::Work& w = each.work;
    json << separator << "{\"name\": " << quoted(each.name) << ", \"nanoseconds\": " << each.nanoseconds
         << ", \"items\": " << w.items << ", \"steps\": " << w.steps << ", \"calls\": " << w.calls
         << ", \"products\": " << w.products << ", \"copied\": " << w.copied << ", \"added\": " << w.added
         << ", \"stored\": " << w.stored << ", \"far\": " << w.far_weights + w.far << "}";
    separator = ", ";
  }
  json << "]}";
  append_line(file, json.str());
}

}  // namespace ortconv
