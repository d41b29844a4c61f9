#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
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

/// Walks through a text before a tree is made of it. (The parser's own callback could do that too, but with one it
/// looks through all elements of a list again whenever one ends.)
template <class Json>
class JsonCheck final : public nlohmann::json_sax<Json> {
 public:
  explicit JsonCheck(std::string_view where) : where_(where) {}

  bool start_object(std::size_t) override {
    deepen();
    keys_.emplace_back();
    return true;
  }
  bool end_object() override {
    --depth_;
    keys_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return deepen(); }
  bool end_array() override { return --depth_ >= 0; }
  bool key(std::string& text) override {
    // In one object: a tree that keeps their order looks them up one by one.
    constexpr bool ordered = !std::is_same_v<Json, nlohmann::json>;
    constexpr std::size_t most = ordered ? 1000 : 100'000;
    if (!keys_.back().insert(text).second) fail(where_, ": duplicate key ", quote(text));
    if (keys_.back().size() > most) fail(where_, ": an object of more than ", most, " keys");
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(typename Json::binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    const std::string_view words = error.what();  // behind "[json.exception.parse_error.101] "
    fail(where_, ": not valid JSON: ", words.substr(words.find(' ') + 1));
  }

 private:
  bool deepen() {
    constexpr int deepest = 64;  // more is an attack on the stack, not a model
    if (++depth_ > deepest) fail(where_, ": the JSON is nested deeper than ", deepest, " levels");
    return true;
  }

  std::string_view where_;
  int depth_ = 0;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

/// Parses `text`. Throws Error, naming `where`, for anything that is not JSON, and for duplicate keys, of which a DOM
/// would silently keep the last. `Json` is an instance of nlohmann::basic_json.
template <class Json>
Json parse_json(std::string_view text, std::string_view where) {
  // The parser would take a NUL for the end of the text and ignore what follows.
  if (text.find('\0') != std::string_view::npos) fail(where, ": not valid JSON: it holds a NUL byte");
  JsonCheck<Json> check(where);
  Json::sax_parse(text, &check);
  return Json::parse(text);
}

}  // namespace lamina::detail
