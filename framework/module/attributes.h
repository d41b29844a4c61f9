#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lamina/base/export.h"

namespace lamina {

/// The value of an attribute in a model file.
using Attribute = std::variant<bool, std::int64_t, double, std::vector<std::int64_t>, std::string, std::vector<double>>;

/// Attributes by name, in the order they are written.
using Attributes = std::vector<std::pair<std::string, Attribute>>;

/// "stride=[4, 4], groups=1"
LAMINA_API std::string to_string(const Attributes& attributes);

/// A height and a width. One number stands for both.
struct Size2d {
  int height = 0;
  int width = 0;

  constexpr Size2d(int both) : height(both), width(both) {}  // NOLINT: meant to convert
  constexpr Size2d(int h, int w) : height(h), width(w) {}
  friend bool operator==(const Size2d&, const Size2d&) = default;
};

LAMINA_API std::string to_string(Size2d size);

/// Reads the attributes of one node, with defaults for absent ones. An attribute of the wrong type or range is an Error
/// that names it. `finish` throws one for an attribute that nobody asked for.
class LAMINA_API AttributeReader {
 public:
  explicit AttributeReader(const Attributes& attributes) : attributes_(attributes) {}

  int integer(std::string_view name, int fallback);
  std::int64_t long_integer(std::string_view name, std::int64_t fallback);
  std::string text(std::string_view name, std::string_view fallback);
  /// A single number counts as a list of one; whole numbers are accepted as numbers.
  std::vector<std::int64_t> integers(std::string_view name, std::vector<std::int64_t> fallback);
  std::vector<double> numbers(std::string_view name, std::vector<double> fallback);
  bool has(std::string_view name) const;
  bool boolean(std::string_view name, bool fallback);
  /// A whole number is accepted, too.
  double number(std::string_view name, double fallback);
  /// One number for both, or [height, width].
  Size2d size(std::string_view name, Size2d fallback);
  /// An attribute that must be there; throws Error if it is not.
  Size2d size(std::string_view name);
  /// Throws Error naming an attribute that was never asked for, and those that were.
  void finish() const;

 private:
  const Attribute* find(std::string_view name);
  Size2d to_size(std::string_view name, const Attribute& attribute) const;

  const Attributes& attributes_;
  std::vector<std::string> asked_;
};

}  // namespace lamina
