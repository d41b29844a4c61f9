#include "lamina/detect/python_literal.h"

#include <cctype>
#include <nlohmann/json.hpp>

namespace lamina::detail {

std::string json_of_python(std::string_view literal) {
  std::string json, word;
  const auto end_word = [&](char next) {
    if (word.empty()) return;
    if (word == "True") word = "true";
    if (word == "False") word = "false";
    if (word == "None") word = "null";
    json += next == ':' ? '"' + word + '"' : word;
    word.clear();
  };
  for (std::size_t i = 0; i < literal.size(); ++i) {
    const char c = literal[i];
    if (c == '\'' || c == '"') {
      std::string text;
      for (++i; i < literal.size() && literal[i] != c; ++i) {
        if (literal[i] == '\\' && i + 1 < literal.size()) ++i;
        text += literal[i];
      }
      json += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      continue;
    } else if (c == '(' || c == ')') {
      end_word(c);
      json += c == '(' ? '[' : ']';
    } else if (std::string_view("{}[],:").find(c) != std::string_view::npos) {
      end_word(c);
      json += c;
    } else {
      word += c;
    }
  }
  end_word('\0');
  return json;
}

}  // namespace lamina::detail
