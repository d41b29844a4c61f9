#include "lamina/base/error.h"

#include <array>
#include <charconv>
#include <locale>
#include <sstream>

#include "lamina/base/names.h"

namespace lamina::detail {
namespace {

template <class Number, class... Format>
void append_chars(std::string& out, Number number, Format... format) {
  std::array<char, 32> text;  // 20 digits and a sign; six digits, a point and an exponent
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number, format...);
  out.append(text.data(), end);
}

}  // namespace

void append_number(std::string& out, long long number) { append_chars(out, number); }

void append_number(std::string& out, unsigned long long number) { append_chars(out, number); }

void append_number(std::string& out, double number) { append_chars(out, number, std::chars_format::general, 6); }

void append_streamed(std::string& out, const void* part, void (*stream)(std::ostream&, const void*)) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  stream(text, part);
  out += text.str();
}

void throw_error(std::string_view message) { throw Error(printable(message, LineEnds::kept)); }

}  // namespace lamina::detail
