#include "ops/tuning.h"

#include <fstream>
#include <memory>
#include <sstream>

namespace ortconv {

Tuning::Tuning(const std::string& file) : file_(file) {
  std::ifstream lines(file);
  for (std::string line, key, name; std::getline(lines, line);) {
    std::istringstream words(line);
    if (words >> key >> name) fastest_[key] = name;
  }
}

Tuning& Tuning::of_file(const std::string& file) {
  static std::mutex& mutex = *new std::mutex;
  static auto& all = *new std::map<std::string, std::unique_ptr<Tuning>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Tuning>& found = all[file];
  if (found == nullptr) found.reset(new Tuning(file));
  return *found;
}

std::string Tuning::key(kernels::Op op, DataType dtype, const ConvProblem& p, bool constant_weights, int threads,
                        const ArchFlags& arch) {
  std::ostringstream key;
  key << cpu_id(arch) << (op == kernels::Op::kConv ? ",conv" : ",transposed") << ",type=" << static_cast<int>(dtype)
      << ",threads=" << threads << (constant_weights ? ",constant" : ",weights=" + std::to_string(p.wei_0))
      << ",batch=" << p.mb << ",group=" << p.g << ",channels=" << p.ic << ">" << p.oc << ",src=" << p.src_n << "/"
      << p.src_c << ",dst=" << p.dst_n << "/" << p.dst_c;
  for (int a = 0; a < p.ndims; ++a) {
    key << ";" << p.src_size[a] << ">" << p.dst_size[a] << ",k" << p.ker[a] << ",s" << p.stride[a] << ",d"
        << p.dilation[a] << ",p" << p.pad[a] << ",x" << p.src_x[a] << "/" << p.dst_x[a] << "/" << p.wei_x[a];
  }
  return key.str();
}

std::string Tuning::find(const std::string& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = fastest_.find(key);
  return found == fastest_.end() ? "" : found->second;
}

void Tuning::add(const std::string& key, const std::string& implementation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  fastest_[key] = implementation;
  std::ofstream(file_, std::ios::app) << key + " " + implementation + "\n";
}

}  // namespace ortconv
