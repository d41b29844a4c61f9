#include "lamina/kernel/precision.h"

#include <iterator>
#include <string>

#include "lamina/base/error.h"

namespace lamina {

Precision parse_precision(std::string_view text) {
  std::string choices;
  for (std::size_t i = 0; i < std::size(precisions); ++i) {
    if (precisions[i].name == text) return static_cast<Precision>(i);
    choices += (choices.empty() ? "" : ", ") + std::string(precisions[i].name);
  }
  // Eight bits are a property of values, which a file has: docs/inside/precision.md.
  const std::string_view remedy = text == "int8" ? "; quantise the model, and it multiplies in eight bits in each" : "";
  detail::fail("precision: expected one of ", choices, "; got \"", text, '"', remedy);
}

}  // namespace lamina
