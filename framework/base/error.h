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

/// Every failure that the library reports: a mistake of the caller, a malformed file, a device out of memory.
/// The message has the place, what was expected and what was found.
class LAMINA_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
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
  using Error::Error;
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
[[noreturn]] LAMINA_API void throw_error(std::string_view message);

/// Throws `Error` with the concatenated parts.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw_error(concat(parts...));
}

/// What `f` returns; an Error that it throws is rethrown with the name, of a node, a step or a file, in front.
template <class F>
auto at_node(const std::string& name, const F& f) {
  try {
    return f();
  } catch (const UnboundInputs& error) {
    throw UnboundInputs(concat(name, ": ", error.what()), error.names);
  } catch (const Stopped&) {
    throw;
  } catch (const Error& error) {
    fail(name, ": ", error.what());
  }
}

}  // namespace detail
}  // namespace lamina
