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
  gray,  ///< one byte, which red, green and blue get alike
  /// A plane of Y, then one of U and V in turn at half the width and height: what cameras and video decoders give. Read
  /// as BT.601 with Y of 16 to 235, each chroma sample for its four pixels: OpenCV's COLOR_YUV2RGB_NV12.
  nv12,
};

/// A picture in memory of the caller's, such as the frame of a camera: nothing is copied, and the view owns nothing.
/// The memory has to outlive the call that it is given to.
struct ImageView {
  const std::uint8_t* data = nullptr;  ///< the top row; of nv12, that of Y
  int width = 0;                       ///< pixels, odd ones of nv12 too
  int height = 0;
  /// Bytes from one row to the next, also of U and V; 0: rows follow each other. Negative: the bottom row comes first
  /// in memory, and `data` is still the top one; not of nv12.
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
