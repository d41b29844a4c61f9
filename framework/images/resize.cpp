#include "lamina/images/resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

// The arithmetic of Pillow's ImagingResample (src/libImaging/Resample.c): one pass for each direction, with 8-bit
// pixels in between; weights computed in double, applied in fixed point.
namespace lamina::detail {
namespace {

constexpr int fraction_bits = 22;
constexpr std::uint32_t one_half = 1u << (fraction_bits - 1);

/// A product that is rounded before it is used. Without this the compiler may fuse it with the addition that follows
/// (FMA), which rounds once instead of twice and so differs from Pillow in the last bit.
double rounded(double product) {
  volatile double stored = product;
  return stored;
}

struct Range {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// For each output pixel of one axis, the input pixels it is made of and their weights.
struct Taps {
  std::vector<std::int64_t> first;     // [outputs] index of the first input pixel
  std::vector<std::size_t> begin;      // [outputs + 1] where its weights begin
  std::vector<std::uint32_t> weights;  // fixed point with fraction_bits; a triangle's are never negative

  /// The input pixels that any output is made of; from here on `first` counts from the first of them.
  Range rebase() {
    std::int64_t low = first.front(), high = low;
    for (std::size_t i = 0; i < first.size(); ++i) {
      low = std::min(low, first[i]);
      high = std::max(high, first[i] + static_cast<std::int64_t>(begin[i + 1] - begin[i]));
    }
    for (std::int64_t& index : first) index -= low;
    return {static_cast<std::size_t>(low), static_cast<std::size_t>(high - low)};
  }
};

/// Taps of outputs [from, from + outputs) when `in` pixels are resized to `out`.
Taps make_taps(std::int64_t in, std::int64_t out, std::int64_t from, int outputs) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double filter_scale = std::max(scale, 1.0);
  const double inverse = 1.0 / filter_scale;
  const double support = filter_scale;

  Taps taps;
  taps.begin.push_back(0);
  std::vector<double> triangle;
  for (std::int64_t i = from; i < from + outputs; ++i) {
    const double center = rounded((static_cast<double>(i) + 0.5) * scale);
    std::int64_t first = std::max<std::int64_t>(0, static_cast<std::int64_t>(center - support + 0.5));
    const std::int64_t last = std::min(in, static_cast<std::int64_t>(center + support + 0.5));
    triangle.clear();
    double sum = 0;
    for (std::int64_t x = first; x < last; ++x) {
      const double distance = std::abs(rounded((static_cast<double>(x) - center + 0.5) * inverse));
      triangle.push_back(distance < 1.0 ? 1.0 - distance : 0.0);
      sum += triangle.back();
    }
    std::size_t leading_zeros = 0;
    for (const double weight : triangle) {
      const double normalized = sum != 0.0 ? weight / sum : weight;
      const auto fixed = static_cast<std::uint32_t>(0.5 + normalized * (1 << fraction_bits));
      // Pixels of weight 0 change nothing; leaving them out makes resizing to the same size a copy.
      if (fixed == 0 && taps.weights.size() == taps.begin.back()) {
        ++leading_zeros;
      } else {
        taps.weights.push_back(fixed);
      }
    }
    while (taps.weights.size() > taps.begin.back() && taps.weights.back() == 0) taps.weights.pop_back();
    taps.first.push_back(first + static_cast<std::int64_t>(leading_zeros));
    taps.begin.push_back(taps.weights.size());
  }
  return taps;
}

std::uint8_t to_pixel(std::uint32_t sum) {
  return static_cast<std::uint8_t>(std::min<std::uint32_t>(sum >> fraction_bits, 255));
}

/// Some rows of a picture.
struct Rows {
  const std::uint8_t* data = nullptr;  // [count, stride]
  std::size_t count = 0;
  std::size_t stride = 0;  // bytes from one row to the next
};

std::vector<std::uint8_t> horizontal_pass(const Rows& rows, const Taps& taps) {
  const std::size_t outputs = taps.first.size();
  std::vector<std::uint8_t> result(rows.count * outputs * 3);  // [rows, outputs, 3]
  std::uint8_t* out = result.data();
  for (std::size_t y = 0; y < rows.count; ++y) {
    const std::uint8_t* row = rows.data + y * rows.stride;
    for (std::size_t i = 0; i < outputs; ++i, out += 3) {
      const std::uint8_t* pixel = row + taps.first[i] * 3;
      std::uint32_t red = one_half, green = one_half, blue = one_half;
      for (std::size_t t = taps.begin[i]; t < taps.begin[i + 1]; ++t, pixel += 3) {
        const std::uint32_t weight = taps.weights[t];
        red += pixel[0] * weight;
        green += pixel[1] * weight;
        blue += pixel[2] * weight;
      }
      out[0] = to_pixel(red);
      out[1] = to_pixel(green);
      out[2] = to_pixel(blue);
    }
  }
  return result;
}

std::vector<std::uint8_t> vertical_pass(const Rows& rows, std::size_t row_bytes, const Taps& taps) {
  const std::size_t outputs = taps.first.size();
  std::vector<std::uint8_t> result(outputs * row_bytes);  // [outputs, row_bytes]
  std::vector<std::uint32_t> sums(row_bytes);
  for (std::size_t i = 0; i < outputs; ++i) {
    std::fill(sums.begin(), sums.end(), one_half);
    const std::uint8_t* row = rows.data + static_cast<std::size_t>(taps.first[i]) * rows.stride;
    for (std::size_t t = taps.begin[i]; t < taps.begin[i + 1]; ++t, row += rows.stride) {
      const std::uint32_t weight = taps.weights[t];
      for (std::size_t x = 0; x < row_bytes; ++x) sums[x] += row[x] * weight;
    }
    std::transform(sums.begin(), sums.end(), result.begin() + static_cast<std::ptrdiff_t>(i * row_bytes), to_pixel);
  }
  return result;
}

}  // namespace

bool resizes_vertically_first(const Image& image, std::int64_t width, std::int64_t height) {
  return image.height > height && image.height - height > 2 * (image.width - width);
}

Image resize_bilinear(const Image& image, std::int64_t width, std::int64_t height, const Region& region) {
  Taps columns = make_taps(image.width, width, region.left, region.width);
  Taps rows = make_taps(image.height, height, region.top, region.height);
  const std::size_t stride = static_cast<std::size_t>(image.width) * 3;
  const auto outputs = static_cast<std::size_t>(region.height);

  if (resizes_vertically_first(image, width, height)) {
    const Range used = columns.rebase();
    const std::vector<std::uint8_t> shortened =
        vertical_pass({image.rgb.data() + used.first * 3, 0, stride}, used.count * 3, rows);
    return {region.width, region.height, horizontal_pass({shortened.data(), outputs, used.count * 3}, columns)};
  }
  const Range used = rows.rebase();
  const std::vector<std::uint8_t> narrowed =
      horizontal_pass({image.rgb.data() + used.first * stride, used.count, stride}, columns);
  const std::size_t row_bytes = static_cast<std::size_t>(region.width) * 3;
  return {region.width, region.height, vertical_pass({narrowed.data(), used.count, row_bytes}, row_bytes, rows)};
}

}  // namespace lamina::detail
