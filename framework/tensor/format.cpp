#include "lamina/tensor/format.h"

#include "lamina/base/error.h"
#include "lamina/base/math.h"

namespace lamina {

std::string_view name(Layout layout) {
  switch (layout) {
    case Layout::nchw: return "nchw";
    case Layout::nhwc: return "nhwc";
  }
  return "?";
}

std::ostream& operator<<(std::ostream& out, Format format) {
  return out << name(format.dtype) << ' ' << name(format.layout);
}

namespace detail {

std::size_t bytes_of(const Shape& shape, Format format) {
  const auto bytes = checked_mul(static_cast<std::size_t>(shape.numel()), size_of(format.dtype));
  if (!bytes) fail("an activation of ", shape, " is too large");
  return *bytes;
}

bool same_order(const Shape& shape, Layout a, Layout b) {
  if (a == b) return true;
  if (shape.rank() != 4) return false;
  return shape[1] == 1 || shape[2] * shape[3] == 1;
}

}  // namespace detail
}  // namespace lamina
