#include "ep/numbers.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>

namespace ortconv::ep {
namespace {

template <class Number, class Convert>
std::optional<std::vector<Number>> elements_of(const Value& value, Convert convert) {
  if (!value) return std::nullopt;
  const int type = value.type().type;
  const bool is_known = std::any_of(std::begin(kDataTypes), std::end(kDataTypes),
                                    [&](DataType each) { return static_cast<int>(each) == type; });
  const auto tensor = is_known ? value.constant() : std::nullopt;
  if (!tensor) return std::nullopt;
  const int64_t count =
      std::accumulate(tensor->dims.begin(), tensor->dims.end(), int64_t{1}, std::multiplies<int64_t>());
  std::vector<Number> numbers;
  numbers.reserve(static_cast<size_t>(count));
  with_type(static_cast<DataType>(type), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < count; ++i) numbers.push_back(convert(static_cast<const T*>(tensor->data)[i]));
  });
  return numbers;
}

}  // namespace

std::optional<std::vector<double>> numbers_of(const Value& value) {
  return elements_of<double>(value, [](auto each) { return to_double(each); });
}

std::optional<std::vector<int64_t>> integers_of(const Value& value) {
  return elements_of<int64_t>(value, [](auto each) { return static_cast<int64_t>(to_double(each)); });
}

}  // namespace ortconv::ep
