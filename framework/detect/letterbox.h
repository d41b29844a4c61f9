#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "lamina/images/image.h"

/// A photograph as the input of a detector, and back.
namespace lamina::detail {

/// The picture resized as OpenCV 4 and 5 do it with INTER_LINEAR, to the bit: two taps a side in fixed point, no
/// antialias, and the mean of four pixels where both sides are halved exactly. `out`: RGB, rows `stride` bytes apart.
LAMINA_API void resize_linear(const ImageView& image, int width, int height, std::uint8_t* out, std::size_t stride);

/// Where a photograph lies in a network's input: whole and in the middle, or stretched over all of it.
struct Letterbox {
  int width = 0, height = 0;              // of the input
  int photo_width = 0, photo_height = 0;  // of the photograph
  int inner_width = 0, inner_height = 0;  // of the photograph within the input
  int left = 0, top = 0;                  // of it
  bool stretched = false;

  Letterbox(int photo_width, int photo_height, int width, int height, bool stretched);

  /// Input pixels for one of the photograph.
  float gain_x() const { return static_cast<float>(static_cast<double>(inner_width) / photo_width); }
  float gain_y() const { return static_cast<float>(static_cast<double>(inner_height) / photo_height); }
  /// From the input's pixels to the photograph's.
  float x(float place) const { return (place - static_cast<float>(left)) / gain_x(); }
  float y(float place) const { return (place - static_cast<float>(top)) / gain_y(); }
  /// The same, within the photograph; where it is stretched its detectors do not mind.
  float held_x(float place) const {
    return stretched ? x(place) : std::clamp(x(place), 0.0f, static_cast<float>(photo_width));
  }
  float held_y(float place) const {
    return stretched ? y(place) : std::clamp(y(place), 0.0f, static_cast<float>(photo_height));
  }

  /// Of a consistent view of the photograph's size.
  void draw(const ImageView& image, std::span<std::uint8_t> out) const;  // [height, width, 3]
};

}  // namespace lamina::detail
