#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "testing/ptx/operations.h"
#include "testing/ptx/program.h"

namespace ortconv::cuda::ptx {
namespace {

constexpr size_t kLanes = 32;

bool starts(const std::string& text, const std::string& with) { return text.compare(0, with.size(), with) == 0; }

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("_$%.", c) != nullptr; }

// Without comments and blanks around it.
std::string stripped(const std::string& line) {
  std::string text = line.substr(0, line.find("//"));
  const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  text.erase(std::find_if_not(text.rbegin(), text.rend(), blank).base(), text.end());
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), blank));
  return text;
}

// The parts of a statement: names, numbers, and marks of one character.
std::vector<std::string> tokens_of(const std::string& text) {
  std::vector<std::string> tokens;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (std::isspace(static_cast<unsigned char>(text[i])) == 0) {
      const bool number = text[i] == '-' || text[i] == '+';
      while ((is_name(text[i]) || number) && end < text.size() && is_name(text[end])) ++end;
      tokens.push_back(text.substr(i, end - i));
    }
    i = end;
  }
  return tokens;
}

// An integer, or the bits of a float of 0f or 0d; false where it is neither.
bool parse_number(const std::string& text, uint64_t* bits) {
  char* end = nullptr;
  if (starts(text, "0f") || starts(text, "0F") || starts(text, "0d") || starts(text, "0D")) {
    *bits = std::strtoull(text.c_str() + 2, &end, 16);
  } else if (starts(text, "-")) {
    *bits = static_cast<uint64_t>(std::strtoll(text.c_str(), &end, 0));
  } else {
    *bits = std::strtoull(text.c_str(), &end, 0);
  }
  return !text.empty() && *end == '\0';
}

class Parser {
 public:
  Program parse(const std::string& text) {
    std::istringstream in(text.c_str());  // NVRTC counts the NUL at its end
    for (std::string line; std::getline(in, line);) {
      program_.lines.push_back(line);
      line_ = program_.lines.size() - 1;
      std::string statement = stripped(line);
      // A label may stand before an instruction.
      const size_t colon = statement.find(':');
      if (colon != std::string::npos && std::all_of(statement.begin(), statement.begin() + colon, is_name)) {
        labels_[statement.substr(0, colon)] = static_cast<uint32_t>(function().code.size());
        statement = stripped(statement.substr(colon + 1));
      }
      if (!statement.empty()) take(statement);
    }
    if (function_ != nullptr) unknown("the end of the text within a function");
    return std::move(program_);
  }

 private:
  struct Register {
    char type;
    Operand operand;
  };

  template <class... Parts>
  [[noreturn]] void unknown(const Parts&... parts) const {
    fail("PTX, line ", line_ + 1, ": ", parts..., ": ", program_.lines[line_]);
  }

  Function& function() {
    if (function_ == nullptr) unknown("not in a function");
    return *function_;
  }

  void take(const std::string& statement) {
    if (statement[0] == '.') return take_directive(statement, tokens_of(statement));
    if (starts(statement, "{") || starts(statement, ")")) return;
    if (statement == "}") return end_function();
    take_instruction(statement);
  }

  void take_directive(const std::string& statement, const std::vector<std::string>& tokens) {
    const std::string& name = tokens[0];
    for (const char* without_meaning : {".version", ".target", ".address_size", ".minnctapersm", ".global"}) {
      if (name == without_meaning) return;
    }
    if (starts(statement, ".pragma \"nounroll\"") || starts(statement, ".pragma \"used_bytes_mask")) return;
    if (starts(statement, ".visible .entry ")) {
      function_ = &program_.functions[tokens[2]];
    } else if (name == ".maxntid") {
      function().most_threads = 1;
      for (const std::string& token : tokens) {
        if (std::isdigit(static_cast<unsigned char>(token[0])) != 0)
          function().most_threads *= std::atoi(token.c_str());
      }
    } else if (name == ".param") {
      if (function().param_bytes != 0) unknown("a second parameter");
      define_array(tokens, kParamBase, &function().param_bytes);
    } else if (name == ".local") {
      if (function().local_bytes != 0) unknown("a second array of the thread");
      define_array(tokens, kLocalBase, &function().local_bytes);
    } else if (starts(statement, ".extern .shared ") && statement.find("[]") != std::string::npos) {
      symbols_[tokens[tokens.size() - 4]] = kSharedBase;
    } else if (name == ".reg") {
      define_registers(tokens);
    } else {
      unknown("an unknown directive");
    }
  }

  // .align 8 .b8 name[1184]
  void define_array(const std::vector<std::string>& tokens, uint64_t base, size_t* bytes) {
    const auto bracket = std::find(tokens.begin(), tokens.end(), "[");
    if (bracket == tokens.end() || *(bracket - 2) != ".b8") unknown("not an array of bytes");
    symbols_[*(bracket - 1)] = base;
    *bytes = std::strtoull((bracket + 1)->c_str(), nullptr, 10);
  }

  // .b32 %r<2194>; or .b64 %SP;
  void define_registers(const std::vector<std::string>& tokens) {
    static const std::map<std::string, char> types = {{".pred", 'p'}, {".b16", 'h'}, {".f16", 'h'}, {".u16", 'h'},
                                                      {".b32", 'w'},  {".f32", 'w'}, {".u32", 'w'}, {".s32", 'w'},
                                                      {".b64", 'd'},  {".f64", 'd'}, {".u64", 'd'}, {".s64", 'd'}};
    const auto type = types.find(tokens[1]);
    if (type == types.end()) unknown("an unknown type of registers");
    if (tokens.size() == 4) {
      define_register(tokens[2], type->second);
    } else {
      const int count = std::atoi(tokens[4].c_str());
      for (int i = 0; i < count; ++i) define_register(tokens[2] + std::to_string(i), type->second);
    }
  }

  Operand new_operand(char type) {
    Function& f = function();
    const Operand operand{static_cast<uint32_t>(f.register_bytes), static_cast<uint32_t>(f.registers++)};
    f.register_bytes += type == 'p' ? kLanes * 2 : bytes_of_type(type) * kLanes;
    return operand;
  }

  void define_register(const std::string& name, char type) { registers_[name] = {type, new_operand(type)}; }

  Operand constant(char type, uint64_t bits) {
    const auto [entry, added] = constants_.insert({{type, bits}, {}});
    if (added) {
      entry->second = new_operand(type);
      function().initial.push_back({entry->second, type, bits, ""});
    }
    return entry->second;
  }

  // A register, constant or special register.
  Operand operand_of(char type, const std::string& token) {
    const auto found = registers_.find(token);
    if (found != registers_.end()) {
      if (found->second.type != type) unknown("the type of ", token);
      return found->second.operand;
    }
    if (token == "_") return new_operand(type);  // a result that nobody wants
    if (token[0] == '%') {
      if (type != 'w') unknown("the type of ", token);
      const Operand operand = new_operand('w');
      registers_[token] = {'w', operand};
      function().initial.push_back({operand, 'w', 0, token});
      return operand;
    }
    const auto symbol = symbols_.find(token);
    if (symbol != symbols_.end()) return constant(type, symbol->second);
    uint64_t bits = 0;
    if (!parse_number(token, &bits)) unknown("an unknown operand ", token);
    return constant(type, bits);
  }

  // A base with an offset: [%rd1+-16], [name+8], [%r2].
  Operand address_of(const std::vector<std::string>& tokens, size_t* next, int64_t* offset, bool* narrow) {
    const std::string& base = tokens[(*next)++];
    while (*next < tokens.size() && tokens[*next] != "]") {
      uint64_t bits = 0;
      std::string number = tokens[(*next)++];
      if (number == "+" && *next < tokens.size()) number = tokens[(*next)++];
      if (number[0] == '+') number.erase(0, 1);
      if (!parse_number(number, &bits)) unknown("an unknown offset ", number);
      *offset += static_cast<int64_t>(bits);
    }
    const auto found = registers_.find(base);
    if (found != registers_.end() && found->second.type == 'w') {
      *narrow = true;
      return found->second.operand;
    }
    *narrow = false;
    return operand_of('d', base);
  }

  // Some names mean different things with operands of another width, or with a vector.
  const Operation& operation_of(const std::vector<std::string>& tokens, size_t at) const {
    const std::string& name = tokens[at];
    std::vector<std::string> names;
    if (at + 1 < tokens.size()) {
      const auto first = registers_.find(tokens[at + 1]), last = registers_.find(tokens.back());
      if (first != registers_.end()) {
        if (last != registers_.end()) names.push_back(name + ' ' + first->second.type + ',' + last->second.type);
        names.push_back(name + ' ' + first->second.type);
      }
      if (last != registers_.end()) names.push_back(name + " ," + last->second.type);
      if (tokens[at + 1] == "{") names.push_back(name + " {");
      if (tokens.back() == "}") names.push_back(name + " }");
    }
    names.push_back(name);
    for (const std::string& each : names) {
      const auto found = operations().find(each);
      if (found != operations().end()) return found->second;
    }
    unknown("an unknown instruction ", name);
  }

  void take_instruction(const std::string& statement) {
    if (statement.back() != ';') unknown("a statement of more than a line");
    std::vector<std::string> tokens = tokens_of(statement.substr(0, statement.size() - 1));
    Instruction made;
    made.line = static_cast<uint32_t>(line_);
    size_t next = 0;
    if (tokens[0] == "@") {
      next = 1;
      made.guarded = true;
      if (tokens[next] == "!") made.guard_negated = true, ++next;
      made.guard = operand_of('p', tokens[next++]);
    }
    const Operation& operation = operation_of(tokens, next++);
    made.kind = operation.kind;
    made.execute = operation.execute;
    int operand = 0, address = 0;
    for (const char type : operation.operands) {
      if (type == ' ') continue;
      if (next == tokens.size()) unknown("too few operands");
      if (type == 'a') {
        made.operands[operand++] = address_of(tokens, &next, &made.offsets[address], &made.narrow[address]);
        ++address;
      } else if (type == 'L') {
        targets_.push_back({function().code.size(), tokens[next++]});
      } else if (type == 'n') {
        uint64_t bits = 0;
        if (!parse_number(tokens[next++], &bits)) unknown("not a number");
        made.number = static_cast<uint32_t>(bits);
      } else if (std::isalpha(static_cast<unsigned char>(type)) != 0) {
        made.operands[operand++] = operand_of(type, tokens[next++]);
      } else if (tokens[next++] != std::string(1, type)) {
        unknown("no ", type, " where there has to be one");
      }
    }
    if (next != tokens.size()) unknown("too many operands");
    function().code.push_back(made);
  }

  void end_function() {
    Function& f = function();
    for (const auto& [at, label] : targets_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) unknown("no label ", label);
      f.code[at].target = found->second;
    }
    registers_.clear(), constants_.clear(), labels_.clear(), targets_.clear();
    function_ = nullptr;
  }

  Program program_;
  Function* function_ = nullptr;
  size_t line_ = 0;
  std::map<std::string, Register> registers_;
  std::map<std::pair<char, uint64_t>, Operand> constants_;
  std::map<std::string, uint64_t> symbols_;
  std::map<std::string, uint32_t> labels_;
  std::vector<std::pair<size_t, std::string>> targets_;
};

}  // namespace

Program parse(const std::string& text) { return Parser().parse(text); }

const Operations& operations() {
  static const Operations& all = *[] {
    auto* const made = new Operations;
    add_integer_operations(made);
    add_float_operations(made);
    add_data_operations(made);
    add_memory_operations(made);
    add_warp_operations(made);
    return made;
  }();
  return all;
}

}  // namespace ortconv::cuda::ptx
