#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/base/names.h"

/// JSON from files nobody vouches for. For .cpp files only: nlohmann-json stays out of public headers.
namespace lamina::detail {

/// `text`, cut to what fits a message.
inline std::string shortened(const std::string& text) {
  constexpr std::size_t longest = 60;
  return text.size() <= longest ? text : text.substr(0, longest) + "...";
}

/// Parses `text`. Throws Error, naming `where`, for anything that is not JSON, and for duplicate keys, of which a DOM
/// would silently keep the last. `Json` is an instance of nlohmann::basic_json.
template <class Json>
Json parse_json(std::string_view text, std::string_view where) {
  // The parser would take a NUL for the end of the text and ignore what follows.
  if (text.find('\0') != std::string_view::npos) fail(where, ": not valid JSON: it holds a NUL byte");
  // A tree deeper than this is an attack on the stack, not a model.
  constexpr int deepest = 64;
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, typename Json::parse_event_t event, Json& parsed) {
    if (depth > deepest) fail(where, ": the JSON is nested deeper than ", deepest, " levels");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.template get<std::string>()).second) {
      fail(where, ": duplicate key ", quote(parsed.template get<std::string>()));
    }
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const typename Json::exception& error) {
    fail(where, ": not valid JSON: ", error.what());
  }
}

}  // namespace lamina::detail
