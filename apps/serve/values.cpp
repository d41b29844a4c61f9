#include "serve/inference.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "lamina/tensor/visit.h"
#include "serve/http.h"

namespace lamina::app {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
T number_of(const std::string& name, const Json& number) {
  if (number.is_boolean()) return static_cast<T>(number.get<bool>());
  if (!number.is_number()) refuse(fmt::format("{}: expected numbers in data", name));
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    const bool fits = number.is_number_unsigned()  ? std::in_range<T>(number.get<std::uint64_t>())
                      : number.is_number_integer() ? std::in_range<T>(number.get<std::int64_t>())
                                                   : false;
    if (!fits) refuse(fmt::format("{}: {} is no whole number in range", name, number.dump()));
  }
  return number.get<T>();
}

template <class T>
void fill(const std::string& name, const Json& data, std::span<T> values, std::size_t& count) {
  for (const Json& element : data) {
    if (element.is_array()) {
      fill(name, element, values, count);
      continue;
    }
    if (count == values.size()) refuse(fmt::format("{}: more data than the {} numbers of its shape", name, count));
    values[count++] = number_of<T>(name, element);
  }
}

constexpr bool is_small_float(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

}  // namespace

Tensor tensor_of(const std::string& name, const Json& data, const Shape& shape, DType dtype) {
  if (is_small_float(dtype)) return tensor_of(name, data, shape, DType::f32).to(dtype);
  if (!data.is_array()) refuse(fmt::format("{}: expected a list of numbers in data", name));
  Tensor tensor(shape, dtype);
  std::size_t count = 0;
  detail::visit(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_arithmetic_v<T>) fill(name, data, tensor.values<T>(), count);
  });
  if (count != static_cast<std::size_t>(tensor.numel())) {
    refuse(fmt::format("{}: expected {} numbers in data, got {}", name, tensor.numel(), count));
  }
  return tensor;
}

void append_values(std::string& out, const Tensor& tensor) {
  if (is_small_float(tensor.dtype())) return append_values(out, tensor.to(DType::f32));
  out += '[';
  char text[32];
  const auto append = [&]<class T>(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      out += value ? "true" : "false";
    } else if constexpr (std::is_arithmetic_v<T>) {
      if (std::is_floating_point_v<T> && !std::isfinite(static_cast<double>(value))) {
        out += "null";
      } else {
        out.append(text, std::to_chars(text, text + sizeof(text), value).ptr);
      }
    }
  };
  detail::visit(tensor.dtype(), [&]<class T>(std::type_identity<T>) {
    bool first = true;
    for (const T& value : tensor.values<T>()) {
      if (!std::exchange(first, false)) out += ',';
      append(value);
    }
  });
  out += ']';
}

}  // namespace lamina::app
