// Which ways of computing the tests of plans have carried out so far.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "cuda/plan/plan.h"
#include "testing/test.h"

namespace ortconv::cuda {

class Tried {
 public:
  // Adds the source of each program, alone and with each of its options and of the `facts` about the problem. True
  // where one of these is new, or where nothing is launched.
  bool add(const std::vector<Launch>& launches, const std::vector<std::string>& facts) {
    bool is_new = launches.empty();
    for (const Launch& launch : launches) {
      const std::string& source = launch.program.source;
      is_new |= all_.insert(source).second;
      for (const auto* with : {&launch.program.options, &facts}) {
        for (const std::string& each : *with) is_new |= all_.insert(source + ' ' + each).second;
      }
    }
    return is_new;
  }
  bool add(const std::string& fact) { return all_.insert(fact).second; }

  // Whether a problem runs. Under sanitizers, where the emulator takes many times as long: one that brings something
  // new, and one in eight of the others.
  bool is_wanted(bool is_new) { return !test::kSanitized || is_new || repeated_++ % 8 == 7; }

  void expect(const std::string& fact) const { EXPECT(all_.count(fact) == 1, "never tried: ", fact); }

 private:
  std::set<std::string> all_;
  int repeated_ = 0;
};

}  // namespace ortconv::cuda
