#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What texts of users are made of.
namespace lamina::app {

/// The number that a text is, if there is nothing else in it.
template <class T>
std::optional<T> number_in(std::string_view text) {
  T number{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped == end ? std::optional(number) : std::nullopt;
}

/// What is before, between and behind these letters; one part where there are none.
inline std::vector<std::string_view> parts_of(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size(); begin += parts.back().size() + 1) {
    parts.push_back(text.substr(begin, text.find(between, begin) - begin));
  }
  return parts;
}

/// With a to z in place of A to Z.
inline std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return result;
}

}  // namespace lamina::app
