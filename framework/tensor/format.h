#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string_view>

#include "lamina/tensor/dtype.h"
#include "lamina/tensor/shape.h"

namespace lamina {

/// The order in which the elements of an activation [N, C, H, W] lie in memory. Its Shape is always the logical one.
enum class Layout : std::uint8_t {
  nchw,
  nhwc,  ///< channels innermost
};

/// "nchw", "nhwc".
LAMINA_API std::string_view name(Layout layout);

/// How a Plan stores an activation. Shapes that are no images [N, C, H, W] are row-major: Layout::nchw.
struct Format {
  DType dtype = DType::f32;
  Layout layout = Layout::nchw;

  friend bool operator==(const Format&, const Format&) = default;
};

/// "f16 nhwc"
LAMINA_API std::ostream& operator<<(std::ostream& out, Format format);

namespace detail {

/// Bytes of an activation in that format. Throws Error if they do not fit std::size_t.
std::size_t bytes_of(const Shape& shape, Format format);

/// Whether elements of one dtype lie in the same order in both layouts: one channel, or one pixel.
bool same_order(const Shape& shape, Layout a, Layout b);

}  // namespace detail
}  // namespace lamina
