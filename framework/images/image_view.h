#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lamina/base/export.h"

namespace lamina {

/// The bytes of a pixel, in the order in which they lie in memory, 8 bits a sample.
enum class PixelFormat : std::uint8_t {
  rgb,
  bgr,
  rgba,  ///< alpha is dropped, as `read_image` does
  bgra,
  gray,  ///< one byte: red, green and blue are equal
  /// A plane of Y, then a plane of U and V in turn, at half the width and height. Cameras and video decoders give it.
  /// It is read as BT.601 with Y from 16 to 235, and each chroma sample is for four pixels: OpenCV's
  /// COLOR_YUV2RGB_NV12.
  nv12,
};

/// A picture in your memory, such as a camera's frame. Nothing is copied, and the view owns nothing. The memory must
/// live until the call that gets the view returns.
struct ImageView {
  const std::uint8_t* data = nullptr;  ///< the top row; for nv12, the top row of Y
  int width = 0;                       ///< in pixels; may be odd, also for nv12
  int height = 0;
  /// Bytes from one row to the next, also for U and V; 0: rows follow each other. Negative: the bottom row comes first
  /// in memory, and `data` still points to the top row; not for nv12.
  std::int64_t stride = 0;
  PixelFormat format = PixelFormat::rgb;
  const std::uint8_t* chroma = nullptr;  ///< nv12: where U and V begin; null: right after `height` rows of Y
};

namespace detail {

/// Throws Error unless the view has memory and pixels, at most `max_image_pixels`, and rows that do not overlap.
void require_consistent(const ImageView& image);

/// Reads the rows of a consistent view, or a stretch of them, as RGB.
class RowReader {
 public:
  /// Pixels [first, first + count) of each row.
  RowReader(const ImageView& image, std::size_t first, std::size_t count);

  /// RGB side by side [count, 3]: where they lie, if they are RGB, else in memory of the reader's until the next call.
  const std::uint8_t* row(std::size_t y);

 private:
  ImageView image_;
  std::int64_t stride_;
  std::size_t first_, count_;
  std::vector<std::uint8_t> converted_;  // [count, 3]; empty for RGB
};

}  // namespace detail
}  // namespace lamina
