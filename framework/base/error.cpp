#include "lamina/base/error.h"

#include <cxxabi.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <exception>
#include <locale>
#include <new>
#include <sstream>
#include <system_error>

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

void throw_error(std::string_view message, ErrorKind kind) { throw Error(printable(message, LineEnds::kept), kind); }

ErrorKind kind_of(int error) {
  return error == ENOENT || error == ENOTDIR ? ErrorKind::no_such_file : ErrorKind::file_access;
}

std::string words_of(int error, std::string_view path) {
  if (kind_of(error) == ErrorKind::no_such_file) {
    return path.find("://") == path.npos ? "there is no such file" : "Lamina opens no addresses; download it first";
  }
  return error == EISDIR ? "this is a folder" : std::generic_category().message(error == 0 ? EIO : error);
}

void rethrow_at(const std::string& name) {
  try {
    throw;
  } catch (const UnboundInputs& error) {
    throw UnboundInputs(concat(name, ": ", error.what()), error.names);
  } catch (const Stopped&) {
    throw;
  } catch (const Error& error) {
    const Error named(concat(name, ": ", error.what()), error.kind());
    const auto* outer = dynamic_cast<const std::nested_exception*>(&error);
    if (outer == nullptr) throw named;
    try {
      outer->rethrow_nested();
    } catch (...) {
      std::throw_with_nested(named);
    }
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::out_of_memory, name, ": out of memory");
  } catch (const std::exception& error) {
    std::throw_with_nested(Error(printable(concat(name, ": ", error.what()), LineEnds::kept), ErrorKind::failed));
#ifdef __GLIBCXX__
  } catch (const abi::__forced_unwind&) {  // the thread is cancelled
    throw;
#endif
  } catch (...) {
    std::throw_with_nested(Error(name + ": threw what is no std::exception", ErrorKind::failed));
  }
}

}  // namespace lamina::detail
