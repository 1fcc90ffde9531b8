// Which implementation was measured to be fastest for a problem, remembered in a file.
//
// Each line is a problem, on a kind of CPU and with a number of threads, and the name of an implementation. Lines that
// are anything else say nothing. Several processes may append to the same file.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "base/arch.h"
#include "base/dtype.h"
#include "base/problem.h"
#include "kernels/conv/conv.h"

namespace ortconv {

class Tuning {
 public:
  // That of a file, which is read on the first call. Never destroyed: sessions may end after everything else.
  static Tuning& of_file(const std::string& file);

  // A name for a problem, without spaces.
  static std::string key(kernels::Op op, DataType dtype, const ConvProblem& problem, bool constant_weights, int threads,
                         const ArchFlags& arch);

  // The name of the implementation; empty if it is not known.
  std::string find(const std::string& key) const;
  // Remembers it, and appends it to the file, if that can be written.
  void add(const std::string& key, const std::string& implementation);

 private:
  explicit Tuning(const std::string& file);

  const std::string file_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> fastest_;
};

}  // namespace ortconv
