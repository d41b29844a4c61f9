#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

#include "lamina/base/export.h"

namespace lamina {

/// Every failure the library reports: a mistake of the caller, a malformed file, a device out of memory.
/// The message names the place, what was expected and what was found.
class LAMINA_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

/// Concatenates anything that streams, for messages.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return std::move(text).str();
}

/// Throws `Error` with the concatenated parts.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Error(concat(parts...));
}

}  // namespace detail
}  // namespace lamina
