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

  Taps taps;
  taps.begin.push_back(0);
  std::vector<double> triangle;
  for (std::int64_t i = from; i < from + outputs; ++i) {
    const double center = rounded((static_cast<double>(i) + 0.5) * scale);
    std::int64_t first = std::max<std::int64_t>(0, static_cast<std::int64_t>(center - filter_scale + 0.5));
    const std::int64_t last = std::min(in, static_cast<std::int64_t>(center + filter_scale + 0.5));
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

/// Rows [first, first + count) of what is read, as RGB into rows `stride` bytes apart.
void horizontal_pass(RowReader& source, const Range& rows, const Taps& taps, std::uint8_t* target, std::size_t stride) {
  for (std::size_t y = 0; y < rows.count; ++y) {
    const std::uint8_t* row = source.row(rows.first + y);
    std::uint8_t* out = target + y * stride;
    for (std::size_t i = 0; i < taps.first.size(); ++i, out += 3) {
      const std::uint8_t* pixel = row + taps.first[i] * 3;
      std::uint32_t red = one_half, green = one_half, blue = one_half;
      // By pointers: indices are checked in this room, and would be here for every tap.
      const std::uint32_t* const weights = taps.weights.data();
      for (std::size_t t = taps.begin[i]; t < taps.begin[i + 1]; ++t, pixel += 3) {
        red += pixel[0] * weights[t];
        green += pixel[1] * weights[t];
        blue += pixel[2] * weights[t];
      }
      out[0] = to_pixel(red);
      out[1] = to_pixel(green);
      out[2] = to_pixel(blue);
    }
  }
}

void vertical_pass(RowReader& source, std::size_t row_bytes, const Taps& taps, std::uint8_t* target,
                   std::size_t stride) {
  std::vector<std::uint32_t> sums(row_bytes);
  for (std::size_t i = 0; i < taps.first.size(); ++i) {
    std::fill(sums.begin(), sums.end(), one_half);
    auto y = static_cast<std::size_t>(taps.first[i]);
    for (std::size_t t = taps.begin[i]; t < taps.begin[i + 1]; ++t, ++y) {
      const std::uint8_t* row = source.row(y);
      const std::uint32_t weight = taps.weights[t];
      std::uint32_t* const sum = sums.data();
      for (std::size_t x = 0; x < row_bytes; ++x) sum[x] += row[x] * weight;
    }
    std::transform(sums.begin(), sums.end(), target + i * stride, to_pixel);
  }
}

}  // namespace

bool resizes_vertically_first(const ImageView& image, std::int64_t width, std::int64_t height) {
  return image.height > height && image.height - height > 2 * (image.width - width);
}

void resize_bilinear(const ImageView& image, std::int64_t width, std::int64_t height, const Region& region,
                     std::uint8_t* out, std::size_t stride) {
  Taps columns = make_taps(image.width, width, region.left, region.width);
  Taps rows = make_taps(image.height, height, region.top, region.height);
  const Range used_columns = columns.rebase();
  RowReader source(image, used_columns.first, used_columns.count);
  const auto out_width = static_cast<std::size_t>(region.width), out_height = static_cast<std::size_t>(region.height);
  const bool down_first = resizes_vertically_first(image, width, height);
  const Range used_rows = down_first ? Range{0, out_height} : rows.rebase();
  const std::size_t across = down_first ? used_columns.count : out_width;
  std::vector<std::uint8_t> between(across * used_rows.count * 3);  // the two passes
  RowReader reader(
      {.data = between.data(), .width = static_cast<int>(across), .height = static_cast<int>(used_rows.count)}, 0,
      across);
  if (down_first) {
    vertical_pass(source, across * 3, rows, between.data(), across * 3);
    horizontal_pass(reader, used_rows, columns, out, stride);
  } else {
    horizontal_pass(source, used_rows, columns, between.data(), across * 3);
    vertical_pass(reader, across * 3, rows, out, stride);
  }
}

Image resize_bilinear(const ImageView& image, std::int64_t width, std::int64_t height, const Region& region) {
  const std::size_t stride = static_cast<std::size_t>(region.width) * 3;
  Image result{region.width, region.height,
               std::vector<std::uint8_t>(stride * static_cast<std::size_t>(region.height))};
  resize_bilinear(image, width, height, region, result.rgb.data(), stride);
  return result;
}

}  // namespace lamina::detail
