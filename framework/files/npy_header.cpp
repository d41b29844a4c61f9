#include "lamina/files/npy_header.h"

#include <charconv>
#include <optional>

#include "lamina/base/error.h"
#include "lamina/base/names.h"

namespace lamina::detail {
namespace {

class Parser {
 public:
  Parser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  NpyHeader parse() {
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<std::vector<std::int64_t>> shape;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        set_once(key, descr, read_descr());
      } else if (key == "fortran_order") {
        set_once(key, fortran_order, boolean());
      } else if (key == "shape") {
        set_once(key, shape, tuple());
      } else {
        reject("unexpected key ", quote(key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) reject("unexpected text after the dict");
    if (!descr) reject("no key 'descr'");
    if (!fortran_order) reject("no key 'fortran_order'");
    if (!shape) reject("no key 'shape'");
    return {*descr, *fortran_order, *shape};
  }

 private:
  template <class... Parts>
  [[noreturn]] void reject(const Parts&... parts) const {
    fail(path_, ": malformed .npy header: ", parts..., " (at byte ", at_, " of ", quote(text_), ')');
  }

  template <class T>
  void set_once(const std::string& key, std::optional<T>& field, T value) const {
    if (field) reject("duplicate key ", quote(key));
    field = std::move(value);
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }

  bool accept(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) reject("expected '", c, "'");
  }

  bool accept_word(std::string_view word) {
    skip_space();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  std::string string() {
    const char quote = accept('\'') ? '\'' : '"';
    if (quote == '"' && !accept('"')) reject("expected a string");
    const std::size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) reject("a string without an end");
    const std::string_view value = text_.substr(at_, end - at_);
    if (value.find('\\') != std::string_view::npos) reject("an escape in a string");
    at_ = end + 1;
    return std::string(value);
  }

  std::string read_descr() {
    if (accept('[')) reject("record dtypes cannot be read; save one field at a time");
    return string();
  }

  bool boolean() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    reject("expected True or False");
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    bool comma = true;
    expect('(');
    while (!accept(')')) {
      if (!comma) reject("expected ',' or ')'");
      values.push_back(extent());
      comma = accept(',');
    }
    if (values.size() == 1 && !comma) reject("expected a tuple, got a number");  // (3) is 3 in Python
    return values;
  }

  std::int64_t extent() {
    skip_space();
    std::int64_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) reject("an extent of the shape overflows");
    if (error != std::errc() || value < 0) reject("expected an extent of 0 or more");
    at_ += static_cast<std::size_t>(end - begin);
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers so
    return value;
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, const std::string& path) { return Parser(text, path).parse(); }

std::string format_npy_header(std::string_view descr, const std::vector<std::int64_t>& shape) {
  std::string extents;
  for (const std::int64_t extent : shape) extents += concat(extents.empty() ? "" : " ", extent, ',');
  if (shape.size() > 1) extents.pop_back();  // Python: (3,) but (3, 4)
  return concat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (", extents, "), }");
}

}  // namespace lamina::detail
