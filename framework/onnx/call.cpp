#include "lamina/onnx/call.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lamina/base/error.h"

namespace lamina::detail::onnx {
namespace {

/// The value of that attribute as a T, taken out of `attributes`; nothing if there is none.
template <class T>
std::optional<T> take(Call& call, std::string_view name, std::string_view expected) {
  const Attribute* found = call.find(name);
  if (found == nullptr) return std::nullopt;
  const T* value = std::get_if<T>(found);
  if (value == nullptr) fail("attribute ", name, ": expected ", expected);
  std::optional<T> result = *value;
  call.erase(name);
  return result;
}

}  // namespace

void Call::set_input(std::size_t place, int node) {
  if (inputs.size() <= place) inputs.resize(place + 1, -1);
  inputs[place] = node;
}

const Attribute* Call::find(std::string_view attribute) const {
  const auto found = std::ranges::find(attributes, attribute, &Attributes::value_type::first);
  return found == attributes.end() ? nullptr : &found->second;
}

void Call::set(std::string_view attribute, Attribute value) {
  erase(attribute);
  attributes.emplace_back(attribute, std::move(value));
}

void Call::erase(std::string_view attribute) {
  std::erase_if(attributes, [&](const auto& entry) { return entry.first == attribute; });
}

std::int64_t Call::take_integer(std::string_view attribute, std::int64_t fallback) {
  return take<std::int64_t>(*this, attribute, "a whole number").value_or(fallback);
}

double Call::take_number(std::string_view attribute, double fallback) {
  return take<double>(*this, attribute, "a number").value_or(fallback);
}

std::string Call::take_text(std::string_view attribute, std::string_view fallback) {
  return take<std::string>(*this, attribute, "a text").value_or(std::string(fallback));
}

std::vector<std::int64_t> Call::take_integers(std::string_view attribute) {
  return take<std::vector<std::int64_t>>(*this, attribute, "whole numbers").value_or(std::vector<std::int64_t>());
}

std::vector<double> Call::take_numbers(std::string_view attribute) {
  return take<std::vector<double>>(*this, attribute, "numbers").value_or(std::vector<double>());
}

int Call::integers(std::string_view what, const std::vector<std::int64_t>& values) {
  return builder.constant(concat(name, '/', what),
                          Tensor::from(values, Shape{static_cast<std::int64_t>(values.size())}));
}

int Call::number(std::string_view what, double value) {
  return builder.constant(concat(name, '/', what),
                          Tensor::from(std::vector<float>{static_cast<float>(value)}, Shape{}));
}

}  // namespace lamina::detail::onnx
