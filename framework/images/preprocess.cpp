#include "lamina/images/named_preprocess.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/images/resize.h"
#include "lamina/images/two_taps.h"

namespace lamina {
namespace {

constexpr int max_crop = 10000;
static_assert(std::int64_t{max_crop} * max_crop <= max_image_pixels, "a cropped picture is a picture");

void validate_sizes(const Preprocess& settings) {
  if (settings.resize < 1) detail::fail("preprocess: expected resize of at least 1 pixel, got ", settings.resize);
  if (settings.crop < 1 || settings.crop > max_crop) {
    detail::fail("preprocess: expected crop of 1 to ", max_crop, " pixels, got ", settings.crop);
  }
  if (settings.crop_width < 0 || settings.crop_width > max_crop) {
    detail::fail("preprocess: expected crop_width of 1 to ", max_crop, " pixels, got ", settings.crop_width);
  }
}

void validate_levels(const Preprocess& settings) {
  if (!std::isfinite(settings.divisor) || settings.divisor == 0) {
    detail::fail("preprocess: expected a finite divisor other than 0, got ", settings.divisor);
  }
  for (std::size_t c = 0; c < 3; ++c) {
    if (!std::isfinite(settings.mean[c])) detail::fail("preprocess: expected a finite mean, got ", settings.mean[c]);
    if (!std::isfinite(settings.std[c]) || settings.std[c] == 0) {
      detail::fail("preprocess: expected a finite std other than 0, got ", settings.std[c]);
    }
  }
}

/// Where the crop lies along one axis.
struct Extent {
  std::int64_t begin = 0;  // first resized pixel inside the crop
  int padding = 0;         // black pixels before it
  int count = 0;           // resized pixels inside the crop
};

Extent placed(std::int64_t size, int crop, const Preprocess& settings) {
  if (settings.placement == Placement::corner) return {0, 0, static_cast<int>(std::min<std::int64_t>(size, crop))};
  if (size < crop) return {0, (crop - static_cast<int>(size)) / 2, static_cast<int>(size)};
  // Python's round((size - crop) / 2.0): halves go to the even neighbour.
  const std::int64_t margin = size - crop, half = margin / 2;
  return {margin % 2 != 0 && half % 2 != 0 ? half + 1 : half, 0, crop};
}

/// Pixels of both sides once the picture is resized, width first.
std::array<std::int64_t, 2> resized(std::int64_t width, std::int64_t height, const Preprocess& settings) {
  const std::int64_t down = settings.resize;
  const std::int64_t across =
      std::max<std::int64_t>((2 * down * settings.width() + settings.crop) / (2 * settings.crop), 1);
  if (settings.aspect == Aspect::ignored) return {across, down};
  // The side that decides: the other one becomes longer (kept), or shorter.
  const bool by_width =
      settings.aspect == Aspect::kept ? across * height >= down * width : across * height <= down * width;
  const std::int64_t given = by_width ? width : height, wanted = by_width ? across : down;
  const auto side = [&](std::int64_t length) {
    if (settings.rounding == Rounding::down) return std::max<std::int64_t>(wanted * length / given, 1);
    const double scale = static_cast<double>(wanted) / static_cast<double>(given);
    return std::max<std::int64_t>(std::llrint(static_cast<double>(length) * scale), 1);  // as Python rounds
  };
  return {side(width), side(height)};
}

}  // namespace

Preprocess torchvision_imagenet() {
  return {.resize = 256, .crop = 224, .mean = {0.485f, 0.456f, 0.406f}, .std = {0.229f, 0.224f, 0.225f}};
}

Preprocess caffe_imagenet() {
  return {.resize = 256,
          .crop = 227,
          .mean = {122.67892f, 116.66877f, 104.00699f},
          .divisor = 1,
          .order = ChannelOrder::bgr,
          .aspect = Aspect::ignored};
}

Preprocess letterbox(int size) {
  return {.resize = size,
          .crop = size,
          .aspect = Aspect::letterbox,
          .fill = {114, 114, 114},
          .rounding = Rounding::nearest,
          .antialias = false};
}

const std::vector<std::pair<std::string, Preprocess>>& named_preprocesses() {
  static const auto all = [] {
    Preprocess symmetric = torchvision_imagenet(), yolox = letterbox(640);
    symmetric.mean = symmetric.std = {0.5f, 0.5f, 0.5f};
    yolox.rounding = Rounding::down, yolox.placement = Placement::corner;
    yolox.divisor = 1, yolox.order = ChannelOrder::bgr;
    return std::vector<std::pair<std::string, Preprocess>>{{"imagenet", torchvision_imagenet()},
                                                           {"symmetric", symmetric},
                                                           {"caffe", caffe_imagenet()},
                                                           {"yolo", letterbox(640)},
                                                           {"yolox", yolox}};
  }();
  return all;
}

Preprocess named_preprocess(std::string_view name) {
  std::string names;
  std::vector<std::string> all;
  for (const auto& [known, settings] : named_preprocesses()) {
    if (known == name) return settings;
    names += (names.empty() ? "" : ", ") + all.emplace_back(known);
  }
  detail::fail("preprocess: expected one of ", names, ", got \"", name,
               "\"; nearest: ", detail::quote(detail::nearest_names(name, all, 1).front()));
}

Window window_of(int width, int height, const Preprocess& settings) {
  validate_sizes(settings);
  const auto side = [&](int length, std::int64_t pixels, int crop) {
    const Extent extent = placed(pixels, crop, settings);
    const double scale = static_cast<double>(length) / static_cast<double>(pixels);
    return std::pair(static_cast<double>(extent.begin - extent.padding) * scale, crop * scale);
  };
  const auto sides = resized(width, height, settings);
  const auto [left, across] = side(width, sides[0], settings.width());
  const auto [top, down] = side(height, sides[1], settings.crop);
  return {left, top, across, down};
}

detail::LevelTable detail::level_table(const Preprocess& settings) {
  validate_levels(settings);
  LevelTable table;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const std::size_t colour = settings.order == ChannelOrder::rgb ? channel : 2 - channel;
    table.source[channel] = static_cast<int>(colour);
    for (std::size_t level = 0; level < LevelTable::levels; ++level) {
      const float value = static_cast<float>(level) / settings.divisor - settings.mean[colour];
      table.values[channel * LevelTable::levels + level] = value / settings.std[colour];
    }
  }
  return table;
}

void detail::normalize_pixels(const LevelTable& table, std::int64_t first, std::int64_t last, std::int64_t pixels,
                              const std::uint8_t* rgb, float* planes) {
  for (std::size_t c = 0; c < 3; ++c) {
    const float* values = table.values.data() + c * LevelTable::levels;
    const std::uint8_t* level = rgb + table.source[c];
    float* plane = planes + static_cast<std::int64_t>(c) * pixels;
    for (std::int64_t p = first; p < last; ++p) plane[p] = values[level[p * 3]];
  }
}

void resize_and_crop(const ImageView& image, const Preprocess& settings, std::span<std::uint8_t> out) {
  validate_sizes(settings);
  validate_levels(settings);
  detail::require_consistent(image);
  const auto rows = static_cast<std::size_t>(settings.crop), columns = static_cast<std::size_t>(settings.width());
  if (out.size() != rows * columns * 3) {
    detail::fail("preprocess: expected room for ", rows * columns * 3, " bytes, got ", out.size());
  }
  const auto [width, height] = resized(image.width, image.height, settings);
  const Extent x = placed(width, settings.width(), settings), y = placed(height, settings.crop, settings);
  if (x.count != settings.width() || y.count != settings.crop) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = settings.fill[i % 3];
  }
  const std::size_t first = static_cast<std::size_t>(y.padding) * columns + static_cast<std::size_t>(x.padding);
  const detail::Region seen = {x.begin, y.begin, x.count, y.count};
  std::uint8_t* const to = out.data() + first * 3;
  if (settings.antialias) return detail::resize_bilinear(image, width, height, seen, to, columns * 3);
  detail::TwoTaps(image, width, height, seen).draw(0, y.count, to, columns * 3);
}

Image resize_and_crop(const ImageView& image, const Preprocess& settings) {
  validate_sizes(settings);
  const auto pixels = static_cast<std::size_t>(settings.crop) * static_cast<std::size_t>(settings.width());
  Image result{settings.width(), settings.crop, std::vector<std::uint8_t>(pixels * 3)};
  resize_and_crop(image, settings, result.rgb);
  return result;
}

void normalize_into(const Image& image, const Preprocess& settings, std::span<float> out) {
  validate_sizes(settings);
  detail::require_consistent(image);
  if (image.width != settings.width() || image.height != settings.crop) {
    detail::fail("preprocess: expected an image of ", settings.width(), " x ", settings.crop, " pixels, got ",
                 image.width, " x ", image.height);
  }
  if (out.size() != image.rgb.size()) {
    detail::fail("preprocess: expected room for ", image.rgb.size(), " values, got ", out.size());
  }
  const auto pixels = static_cast<std::int64_t>(out.size() / 3);
  detail::normalize_pixels(detail::level_table(settings), 0, pixels, pixels, image.rgb.data(), out.data());
}

Tensor preprocess(const ImageView& image, const Preprocess& settings) {
  const Image seen = resize_and_crop(image, settings);
  Tensor result({1, 3, settings.crop, settings.width()});
  normalize_into(seen, settings, result.values<float>());
  return result;
}

Tensor load_image(const std::string& path, const Preprocess& settings, const ImageOptions& options) {
  return preprocess(read_image(path, options), settings);
}

}  // namespace lamina
