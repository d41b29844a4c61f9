#include "lamina/module/attributes.h"

#include <algorithm>
#include <optional>

#include "lamina/base/error.h"
#include "lamina/base/names.h"

namespace lamina {
namespace {

/// Writes a number the same way in every locale.
template <class T>
std::string text_of(const std::vector<T>& list) {
  std::string text = "[";
  for (const T& value : list) text += detail::concat(text.size() > 1 ? ", " : "", value);
  return text + ']';
}

std::string text_of(const Attribute& attribute) {
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&attribute)) return text_of(*list);
  if (const auto* numbers = std::get_if<std::vector<double>>(&attribute)) return text_of(*numbers);
  if (const auto* text = std::get_if<std::string>(&attribute)) return *text;
  if (const auto* flag = std::get_if<bool>(&attribute)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<double>(&attribute)) return detail::concat(*number);
  return detail::concat(std::get<std::int64_t>(attribute));
}

std::optional<int> to_int(std::int64_t value) {
  if (!std::in_range<int>(value)) return std::nullopt;
  return static_cast<int>(value);
}

[[noreturn]] void fail_expected(std::string_view name, std::string_view expected, const Attribute& found) {
  detail::fail("attribute ", name, ": expected ", expected, ", got ", text_of(found));
}

}  // namespace

std::string to_string(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes) {
    text += detail::concat(text.empty() ? "" : ", ", name, '=', text_of(value));
  }
  return text;
}

std::string to_string(Size2d size) { return detail::concat(size.height, 'x', size.width); }

const Attribute* AttributeReader::find(std::string_view name) {
  if (std::ranges::find(asked_, name) == asked_.end()) asked_.emplace_back(name);
  const auto found = std::ranges::find(attributes_, name, &Attributes::value_type::first);
  return found == attributes_.end() ? nullptr : &found->second;
}

int AttributeReader::integer(std::string_view name, int fallback) {
  const Attribute* attribute = find(name);
  if (attribute == nullptr) return fallback;
  if (const auto* value = std::get_if<std::int64_t>(attribute)) {
    if (const auto result = to_int(*value)) return *result;
  }
  fail_expected(name, "a whole number of 32 bits", *attribute);
}

std::int64_t AttributeReader::long_integer(std::string_view name, std::int64_t fallback) {
  const Attribute* attribute = find(name);
  if (attribute == nullptr) return fallback;
  if (const auto* value = std::get_if<std::int64_t>(attribute)) return *value;
  fail_expected(name, "a whole number", *attribute);
}

std::string AttributeReader::text(std::string_view name, std::string_view fallback) {
  const Attribute* attribute = find(name);
  if (attribute == nullptr) return std::string(fallback);
  if (const auto* value = std::get_if<std::string>(attribute)) return *value;
  fail_expected(name, "a text", *attribute);
}

std::vector<std::int64_t> AttributeReader::integers(std::string_view name, std::vector<std::int64_t> fallback) {
  const Attribute* attribute = find(name);
  if (attribute == nullptr) return fallback;
  if (const auto* value = std::get_if<std::vector<std::int64_t>>(attribute)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(attribute)) return {*value};
  fail_expected(name, "whole numbers", *attribute);
}

std::vector<double> AttributeReader::numbers(std::string_view name, std::vector<double> fallback) {
  const Attribute* attribute = find(name);
  if (attribute == nullptr) return fallback;
  if (const auto* value = std::get_if<std::vector<double>>(attribute)) return *value;
  if (const auto* value = std::get_if<std::vector<std::int64_t>>(attribute)) return {value->begin(), value->end()};
  if (const auto* value = std::get_if<double>(attribute)) return {*value};
  if (const auto* value = std::get_if<std::int64_t>(attribute)) return {static_cast<double>(*value)};
  fail_expected(name, "numbers", *attribute);
}

bool AttributeReader::has(std::string_view name) const {
  return std::ranges::find(attributes_, name, &Attributes::value_type::first) != attributes_.end();
}

bool AttributeReader::boolean(std::string_view name, bool fallback) {
  const Attribute* attribute = find(name);
  if (attribute == nullptr) return fallback;
  if (const auto* value = std::get_if<bool>(attribute)) return *value;
  // ONNX has no truth values.
  if (const auto* value = std::get_if<std::int64_t>(attribute); value != nullptr && (*value == 0 || *value == 1)) {
    return *value != 0;
  }
  fail_expected(name, "true or false", *attribute);
}

double AttributeReader::number(std::string_view name, double fallback) {
  const Attribute* attribute = find(name);
  if (attribute == nullptr) return fallback;
  if (const auto* value = std::get_if<double>(attribute)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(attribute)) return static_cast<double>(*value);
  fail_expected(name, "a number", *attribute);
}

Size2d AttributeReader::size(std::string_view name, Size2d fallback) {
  const Attribute* attribute = find(name);
  return attribute == nullptr ? fallback : to_size(name, *attribute);
}

Size2d AttributeReader::size(std::string_view name) {
  const Attribute* attribute = find(name);
  if (attribute == nullptr) detail::fail("attribute ", name, " is missing");
  return to_size(name, *attribute);
}

Size2d AttributeReader::to_size(std::string_view name, const Attribute& attribute) const {
  if (const auto* value = std::get_if<std::int64_t>(&attribute)) {
    if (const auto both = to_int(*value)) return {*both};
  }
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&attribute); list != nullptr && list->size() == 2) {
    const auto height = to_int((*list)[0]);
    const auto width = to_int((*list)[1]);
    if (height && width) return {*height, *width};
  }
  fail_expected(name, "one number or [height, width]", attribute);
}

void AttributeReader::finish() const {
  for (const auto& [name, value] : attributes_) {
    if (std::ranges::find(asked_, name) == asked_.end())
      detail::fail("unknown attribute ", detail::quote(name), detail::nearest_text(name, asked_));
  }
}

}  // namespace lamina
