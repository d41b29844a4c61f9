#pragma once

#include <algorithm>
#include <cstdint>

#include "lamina/kernel/conv_geometry.h"

/// How the register-blocked convolution cuts its reduction: into chunks of at most 128 terms, whose sums are added up.
/// A single chain over a long reduction rounds the same way every time on a flat image, and breaks the fp32 contract
/// (docs/inside/precision.md). A chunk's weights stay in the L1 cache while all tiles of some rows pass.
namespace lamina::cpu {

/// The longest chain of multiply-adds.
inline constexpr int chunk_terms = 128;

struct Range {
  int begin, end;
  int size() const { return std::max(0, end - begin); }
};

/// A box of the reduction [C / groups, KH, KW] of at most `chunk_terms` terms.
struct Chunk {
  Range channels, rows, taps;
  std::int64_t terms() const { return std::int64_t{channels.size()} * rows.size() * taps.size(); }
};

/// Splits [0, count) into the fewest parts of at most `most`, as equal as can be; returns part `index`.
template <class T, class U>
constexpr auto parts(T count, U most) {
  return (count + most - 1) / most;
}
constexpr Range part(int count, int most, int index) {
  const int n = parts(count, most);
  const auto at = [&](int i) { return static_cast<int>(std::int64_t{count} * i / n); };
  return {at(index), at(index + 1)};
}

/// Calls body(chunk, index, count) for all chunks in order.
template <class Body>
void for_each_chunk(const ConvGeometry& g, const Body& body) {
  const int taps = std::min(g.kernel_width, chunk_terms);
  const int rows = std::clamp(chunk_terms / g.kernel_width, 1, g.kernel_height);
  const bool whole_channels = taps == g.kernel_width && rows == g.kernel_height;
  const int channels = whole_channels ? std::max(1, chunk_terms / (rows * taps)) : 1;
  const int channel_parts = parts(g.group_in_channels(), channels);
  const int row_parts = parts(g.kernel_height, rows);
  const int tap_parts = parts(g.kernel_width, taps);
  for (int c = 0; c < channel_parts; ++c) {
    for (int r = 0; r < row_parts; ++r) {
      for (int t = 0; t < tap_parts; ++t) {
        const Chunk chunk = {part(g.group_in_channels(), channels, c), part(g.kernel_height, rows, r),
                             part(g.kernel_width, taps, t)};
        body(chunk, (c * row_parts + r) * tap_parts + t, channel_parts * row_parts * tap_parts);
      }
    }
  }
}

}  // namespace lamina::cpu
