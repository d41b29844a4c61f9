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

/// How a picture that is not square is resized.
enum class Aspect : std::uint8_t {
  kept,       ///< the short side gets `resize` pixels, and the long side keeps the proportions
  ignored,    ///< both sides get `resize` pixels
  letterbox,  ///< the long side gets `resize` pixels: the whole picture is seen, with a border of `fill`
};

/// How the side that keeps the proportions is rounded to whole pixels.
enum class Rounding : std::uint8_t { down, nearest };

/// Where the crop is taken from a larger picture, or where a smaller picture lies in it.
enum class Placement : std::uint8_t { centre, corner };

/// The order of a network's channels.
enum class ChannelOrder : std::uint8_t { rgb, bgr };

/// How a picture becomes a network's input, in torchvision's terms: Resize(resize), CenterCrop(crop), ToTensor,
/// Normalize(mean, std). The other fields are for Caffe's networks and detectors, which differ.
struct Preprocess {
  int resize = 256;     // pixels of the short side, at least 1
  int crop = 224;       // pixels of both sides of the result, 1 to 10000; only of its height with `crop_width`
  Rgb mean{0, 0, 0};    // subtracted from level / divisor; red, green and blue, whatever the order
  Rgb std{1, 1, 1};     // divides the rest, likewise; not 0
  float divisor = 255;  // divides the levels 0 to 255 first; not 0
  ChannelOrder order = ChannelOrder::rgb;
  Aspect aspect = Aspect::kept;
  std::array<std::uint8_t, 3> fill{0, 0, 0};  // red, green, blue of the border around a picture smaller than the crop
  Rounding rounding = Rounding::down;
  Placement placement = Placement::centre;
  bool antialias = true;  // false: two samples in each direction at any reduction, the bits of OpenCV's INTER_LINEAR
  /// Pixels of the result's width, if it is not square; 0: equal to its height. The picture is then resized to an area
  /// with the proportions of the result, `resize` pixels high: it covers the area (`kept`), fills it (`ignored`), or
  /// lies within it (`letterbox`).
  int crop_width = 0;

  /// Of the result.
  int width() const { return crop_width > 0 ? crop_width : crop; }

  friend bool operator==(const Preprocess&, const Preprocess&) = default;
};

/// The preprocessing of torchvision's ImageNet classifiers: 256, 224, and ImageNet's mean and deviation.
LAMINA_API Preprocess torchvision_imagenet();

/// The preprocessing of Caffe's ImageNet classifiers (AlexNet, CaffeNet): stretched to 256 x 256, the middle 227 x 227
/// cropped, blue, green, red from 0 to 255 minus ImageNet's mean. Caffe resizes without antialias, Lamina with it.
LAMINA_API Preprocess caffe_imagenet();

/// The preprocessing of Ultralytics' detectors (YOLOv5 and later): the whole picture in the middle of size x size
/// pixels, with a border of 114, levels from 0 to 1, resized like OpenCV, without antialias. A Detector draws the same
/// pixels.
LAMINA_API Preprocess letterbox(int size);

/// The picture that the network will see, crop x width() pixels. It is resized bilinearly, with or without antialias,
/// and its centre is cropped. By default (`kept`) the short side becomes `resize` and the long side int(resize * long /
/// short). With `ignored` both sides become `resize`; with `letterbox` the long side does. If the crop is larger than
/// the resized picture, the border gets `fill`, as torchvision pads with black.
///
/// With antialias it has the bits of torchvision's Resize and CenterCrop on a Pillow 13 image with the same pixels.
/// (Earlier versions of Pillow round differently when a picture taller than twice its width is reduced: see resize.h.)
/// No pixel outside the crop is computed, so neither time nor memory depend on the length of the long side.
/// Throws Error if a setting is out of range or the image is inconsistent.
///
/// The picture may be an Image, or a camera's frame in your memory, in its own format. Other formats are converted row
/// by row as they are read; the picture is not copied.
LAMINA_API Image resize_and_crop(const ImageView& image, const Preprocess& settings);

/// The same into your memory, with red, green and blue side by side, as a Plan compiled with `photos` takes it. Throws
/// Error as above, and unless `out` has 3 * crop * width() elements.
LAMINA_API void resize_and_crop(const ImageView& image, const Preprocess& settings,
                                std::span<std::uint8_t> out);  // [crop, width(), 3]

/// A part of a picture, in its pixels. Beyond the picture's edges there is padding.
struct Window {
  double left = 0, top = 0, width = 0, height = 0;
};

/// The part of a picture of that size that `resize_and_crop` shows. It tells where a place of the network's input lies
/// in the picture. Throws Error if a setting is out of range.
LAMINA_API Window window_of(int width, int height, const Preprocess& settings);

/// Writes (level / divisor - mean) / std of every sample, with the channels in the network's order. Each step is
/// rounded to f32, as in torchvision's ToTensor and Normalize. A Plan compiled with `photos` does the same itself, on
/// its device. Throws Error unless the image has crop rows of width() pixels, and `out` has 3 * crop * width()
/// elements.
LAMINA_API void normalize_into(const Image& image, const Preprocess& settings,
                               std::span<float> out);  // [3, crop, width()]

/// Both steps: an f32 tensor [1, 3, crop, width()] on the CPU. Throws Error as they do.
LAMINA_API Tensor preprocess(const ImageView& image, const Preprocess& settings);

/// `read_image`, then `preprocess`: an f32 tensor [1, 3, crop, width()] on the CPU. Throws Error as they do.
LAMINA_API Tensor load_image(const std::string& path, const Preprocess& settings,
                             const ImageOptions& options = as_seen);

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
