// What the fake compiler makes and the fake driver loads.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace ortconv::fake {

struct Image {
  bool intermediate = false;         // PTX
  int sm = 0;                        // of the -arch option
  std::vector<std::string> options;  // -D... only
  std::string text;

  std::string serialized() const {
    std::ostringstream out;
    out << "fake image\n" << intermediate << ' ' << sm << ' ' << options.size() << '\n';
    for (const std::string& option : options) out << option << '\n';
    out << text;
    return out.str();
  }

  // Returns whether it is one.
  bool parse(const std::string& data) {
    std::istringstream in(data);
    std::string line;
    size_t count = 0;
    if (!std::getline(in, line) || line != "fake image" || !(in >> intermediate >> sm >> count)) return false;
    std::getline(in, line);
    options.resize(count);
    for (std::string& option : options) std::getline(in, option);
    text = in ? data.substr(static_cast<size_t>(in.tellg())) : "";
    return !text.empty();
  }
};

}  // namespace ortconv::fake
