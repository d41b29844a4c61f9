#pragma once

#include <array>
#include <filesystem>
#include <span>

#include "lamina/tensor/export.h"
#include "lamina/tensor/image.h"
#include "lamina/tensor/tensor.h"

namespace lamina {

/// One number for each of red, green and blue.
using Rgb = std::array<float, 3>;

/// How a picture becomes a network's input, in torchvision's terms: Resize(resize), CenterCrop(crop), ToTensor,
/// Normalize(mean, std).
struct Preprocess {
  int resize = 256;   // pixels of the short side, at least 1
  int crop = 224;     // pixels of both sides of the result, 1 to 10000
  Rgb mean{0, 0, 0};  // of values 0 to 1
  Rgb std{1, 1, 1};   // not 0

  friend bool operator==(const Preprocess&, const Preprocess&) = default;
};

/// What torchvision's ImageNet classifiers were trained with: 256, 224, and ImageNet's mean and deviation.
LAMINA_API Preprocess torchvision_imagenet();

/// The picture that the network will see, crop x crop pixels: the short side resized to `resize` and the long one to
/// int(resize * long / short), bilinear with antialias, then the centre cut out. Where the crop is larger than the
/// resized picture it is padded with black, as torchvision does.
///
/// Bit-exact with torchvision's Resize and CenterCrop of a Pillow 13 image with the same pixels (earlier Pillows round
/// differently where a picture taller than twice its width is made smaller: see resize.h). Computes no pixel
/// outside the crop, so neither time nor memory depend on how long the long side is.
/// Throws Error if a setting is out of range or the image is inconsistent.
LAMINA_API Image resize_and_crop(const Image& image, const Preprocess& settings);

/// (value / 255 - mean) / std of every sample, each step rounded to f32 as torchvision's ToTensor and Normalize do.
/// Throws Error unless the image is crop x crop and `out` has 3 * crop * crop elements.
LAMINA_API void normalize_into(const Image& image, const Preprocess& settings,
                               std::span<float> out);  // [3, crop, crop]

/// Both steps: an f32 tensor [1, 3, crop, crop] on the CPU. Throws Error as they do.
LAMINA_API Tensor preprocess(const Image& image, const Preprocess& settings);

/// `read_image`, then `preprocess`: an f32 tensor [1, 3, crop, crop] on the CPU. Throws Error as they do.
LAMINA_API Tensor load_image(const std::filesystem::path& path, const Preprocess& settings);

}  // namespace lamina
