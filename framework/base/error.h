#pragma once

#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lamina/base/export.h"

namespace lamina {

/// What an Error is about. C has the same numbers as lamina_status, Python a class for each.
enum class ErrorKind {
  invalid = 1,        ///< an argument, an input, or what a file holds, is wrong
  out_of_memory = 2,  ///< of the host or of a device
  stopped = 3,        ///< ended, or not begun, because a limit said so; it may be asked for again
  no_such_file = 4,   ///< a file or a folder is not there
  file_access = 5,    ///< a file that is there cannot be read, or a file cannot be written
  unsupported = 6,    ///< by this build, on this device, or by Lamina
  failed = 7          ///< a device or its driver failed, or a layer of yours threw what is no Error
};

/// Every failure that the library reports. The message has the place, what was expected and what was found.
class LAMINA_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what, ErrorKind kind = ErrorKind::invalid)
      : std::runtime_error(what), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

/// Thrown by compiling a Graph if shapes, axes or weights depend on the values of these inputs. Give the values as
/// `CompileOptions::constants`.
class LAMINA_API UnboundInputs : public Error {
 public:
  UnboundInputs(const std::string& what, std::vector<std::string> inputs) : Error(what), names(std::move(inputs)) {}
  std::vector<std::string> names;
};

/// Work ended because its `Limits` said so; it may be asked for again.
class LAMINA_API Stopped : public Error {
 public:
  explicit Stopped(const std::string& what) : Error(what, ErrorKind::stopped) {}
};

namespace detail {

LAMINA_API void append_number(std::string& out, long long number);
LAMINA_API void append_number(std::string& out, unsigned long long number);
LAMINA_API void append_number(std::string& out, double number);  // as %g
LAMINA_API void append_streamed(std::string& out, const void* part, void (*stream)(std::ostream&, const void*));

template <class T>
void append(std::string& out, const T& part) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    out += std::string_view(part);
  } else if constexpr (std::is_same_v<T, char>) {
    out += part;
  } else if constexpr (std::is_floating_point_v<T>) {
    append_number(out, static_cast<double>(part));
  } else if constexpr (std::is_integral_v<T>) {
    using Widest = std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>;
    append_number(out, static_cast<Widest>(part));
  } else {
    append_streamed(out, &part, [](std::ostream& text, const void* p) { text << *static_cast<const T*>(p); });
  }
}

/// Concatenates texts, numbers and anything else that streams, for messages and files. The program's locale has no say:
/// a stream of German habits would write 1234 as "1.234".
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string text;
  (append(text, parts), ...);
  return text;
}

/// Throws `Error`, with control characters but line ends escaped: what a file says must not drive a terminal.
[[noreturn]] LAMINA_API void throw_error(std::string_view message, ErrorKind kind = ErrorKind::invalid);

/// Throws `Error` with the concatenated parts.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw_error(concat(parts...));
}
template <class... Parts>
[[noreturn]] void fail(ErrorKind kind, const Parts&... parts) {
  throw_error(concat(parts...), kind);
}

/// Of a file that cannot be read, by errno: ENOENT and ENOTDIR say that it is not there.
LAMINA_API ErrorKind kind_of(int error);

/// What errno says, in a message that begins with "cannot read PATH: ".
LAMINA_API std::string words_of(int error, std::string_view path = {});

/// Throws the exception that is being handled again, with the name in front. What is no Error becomes one, and is kept
/// in it as std::nested_exception.
[[noreturn]] LAMINA_API void rethrow_at(const std::string& name);

/// What `f` returns; what it throws is rethrown with the name, of a node, a step or a file, in front.
template <class F>
auto at_node(const std::string& name, const F& f) {
  try {
    return f();
  } catch (...) {
    rethrow_at(name);
  }
}

}  // namespace detail
}  // namespace lamina
