#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "lamina/base/export.h"
#include "lamina/images/image.h"
#include "lamina/tensor/tensor.h"

namespace lamina {

/// One number for each of red, green and blue.
using Rgb = std::array<float, 3>;

/// What resizing makes of a picture that is not square.
enum class Aspect : std::uint8_t {
  kept,       ///< the short side gets `resize` pixels, the long one as many as keep the proportions
  ignored,    ///< both sides get `resize` pixels
  letterbox,  ///< the long side gets `resize` pixels: all of the picture is seen, and `fill` beside it
};

/// What becomes of fractions of pixels of the side that keeps the proportions.
enum class Rounding : std::uint8_t { down, nearest };

/// Where a picture lies that is larger or smaller than the crop.
enum class Placement : std::uint8_t { centre, corner };

/// Which colour a network's first channel is.
enum class ChannelOrder : std::uint8_t { rgb, bgr };

/// How a picture becomes a network's input, in torchvision's terms: Resize(resize), CenterCrop(crop), ToTensor,
/// Normalize(mean, std). The other fields say what Caffe's networks and detectors want otherwise.
struct Preprocess {
  int resize = 256;     // pixels of the short side, at least 1
  int crop = 224;       // pixels of both sides of the result, 1 to 10000; of its height, if `crop_width` is given
  Rgb mean{0, 0, 0};    // of level / divisor; of red, green and blue, whatever the order
  Rgb std{1, 1, 1};     // likewise, not 0
  float divisor = 255;  // of the levels 0 to 255, before the mean is taken off; not 0
  ChannelOrder order = ChannelOrder::rgb;
  Aspect aspect = Aspect::kept;
  std::array<std::uint8_t, 3> fill{0, 0, 0};  // red, green, blue of what lies beside a picture smaller than the crop
  Rounding rounding = Rounding::down;
  Placement placement = Placement::centre;
  bool antialias = true;  // false: two taps a side however small it becomes, OpenCV's INTER_LINEAR to the bit
  /// Pixels of the result's width where it is no square; 0: as its height. What a picture is resized to is then of the
  /// same proportions, `resize` pixels high: it covers that (`kept`), fills it, or lies within it.
  int crop_width = 0;

  /// Of the result.
  int width() const { return crop_width > 0 ? crop_width : crop; }

  friend bool operator==(const Preprocess&, const Preprocess&) = default;
};

/// What torchvision's ImageNet classifiers were trained with: 256, 224, and ImageNet's mean and deviation.
LAMINA_API Preprocess torchvision_imagenet();

/// What Caffe's ImageNet classifiers (AlexNet, CaffeNet) are run with: stretched to 256 x 256, the middle 227 x 227,
/// blue, green, red from 0 to 255 less ImageNet's mean. Caffe resizes without antialias, Lamina with it.
LAMINA_API Preprocess caffe_imagenet();

/// What the detectors of Ultralytics (YOLOv5 and later) are run with: the whole picture in the middle of size x size
/// pixels, 114 beside it, from 0 to 1, resized as OpenCV does it without antialias. A Detector draws the same pixels.
LAMINA_API Preprocess letterbox(int size);

/// The picture that the network will see, crop x width() pixels: the short side resized to `resize` and the long one to
/// int(resize * long / short), or both to `resize`, or the long one to it, bilinear with antialias or without, then the
/// centre cut out. Where the crop is larger than the resized picture it is padded with `fill`, as torchvision does with
/// black.
///
/// With antialias it is bit-exact with torchvision's Resize and CenterCrop of a Pillow 13 image with the same pixels
/// (earlier Pillows round differently where a picture taller than twice its width is made smaller: see resize.h).
/// Computes no pixel outside the crop, so neither time nor memory depend on how long the long side is.
/// Throws Error if a setting is out of range or the image is inconsistent.
///
/// The picture may be an Image, or in memory of yours, a camera's frame in its own format: other formats are converted
/// row by row as they are read; the picture is not copied.
LAMINA_API Image resize_and_crop(const ImageView& image, const Preprocess& settings);

/// The same into memory of yours, red, green and blue side by side: what a Plan compiled with `photos` takes. Throws
/// Error as above, and unless `out` has 3 * crop * width() elements.
LAMINA_API void resize_and_crop(const ImageView& image, const Preprocess& settings,
                                std::span<std::uint8_t> out);  // [crop, width(), 3]

/// A part of a picture, in its pixels. What lies beyond its edges is padding.
struct Window {
  double left = 0, top = 0, width = 0, height = 0;
};

/// What `resize_and_crop` shows of a picture of that size: where a place of the network's input is in the picture.
/// Throws Error if a setting is out of range.
LAMINA_API Window window_of(int width, int height, const Preprocess& settings);

/// (level / divisor - mean) / std of every sample, each step rounded to f32 as torchvision's ToTensor and Normalize do,
/// channels in the network's order. A Plan compiled with `photos` does the same by itself, on its device.
/// Throws Error unless the image is of crop rows of width() pixels, and `out` has 3 * crop * width() elements.
LAMINA_API void normalize_into(const Image& image, const Preprocess& settings,
                               std::span<float> out);  // [3, crop, width()]

/// Both steps: an f32 tensor [1, 3, crop, width()] on the CPU. Throws Error as they do.
LAMINA_API Tensor preprocess(const ImageView& image, const Preprocess& settings);

/// `read_image`, then `preprocess`: an f32 tensor [1, 3, crop, width()] on the CPU. Throws Error as they do.
LAMINA_API Tensor load_image(const std::string& path, const Preprocess& settings, const ImageOptions& options = {});

namespace detail {

/// What the 256 levels become, for each of the network's channels: all that is to know of a normalisation, computed
/// once, so that whoever looks it up gets the same bits.
struct LevelTable {
  static constexpr std::size_t levels = 256;
  std::array<float, 3 * levels> values;  // [channel][level]
  std::array<int, 3> source;             // of each channel: which of a pixel's bytes red, green, blue
};

/// Throws Error unless mean, std and divisor are finite and the latter two not 0. The sizes are not looked at.
LevelTable level_table(const Preprocess& settings);

/// Normalises pixels [first, last) of one picture.
void normalize_pixels(const LevelTable& table, std::int64_t first, std::int64_t last, std::int64_t pixels,
                      const std::uint8_t* rgb,  // [pixels, 3]
                      float* planes);           // [3, pixels]

}  // namespace detail
}  // namespace lamina
