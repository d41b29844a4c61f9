// Convolutions whose lanes are channels, around their tiles: packing, the division of work, the edges of the image.

#include "lamina/cpu/conv2d/lanes.h"

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/base/math.h"

namespace lamina::cpu {
namespace {

using detail::ceil_div;
using detail::round_up;

/// Floats in a cache line: buffers start on one.
constexpr std::int64_t line = 16;
/// Of an image that the layer before has left in the caches.
constexpr std::int64_t cached_floats = 3 << 19;
/// The longest chain of multiply-adds: docs/inside/precision.md.
constexpr int chunk_terms = 128;

int part_begin(int count, int n, int index) { return static_cast<int>(std::int64_t{count} * index / n); }

/// Taps [begin, end) of a kernel that lie inside of the image, for a window that starts at `first`.
struct Taps {
  int begin, end;
  Taps(int first, int size, int kernel, int dilation)
      : begin(first >= 0 ? 0 : std::min(kernel, ceil_div(-first, dilation))),
        end(std::max(begin, first >= size ? 0 : std::min(kernel, ceil_div(size - first, dilation)))) {}
  int size() const { return end - begin; }
};

}  // namespace

/// Blocks are whole groups, and read no more channels than they have.
const LanesFunctions* LanesConv::functions(const ConvGeometry& g, const LanesKernel& kernel) {
  const int filters = g.group_out_channels(), channels = g.group_in_channels();
  if (channels > filters) return nullptr;
  for (const LanesFunctions& some : kernel.widths) {
    if (some.lanes % filters == 0 && some.lanes <= g.in_channels && some.lanes <= g.out_channels) return &some;
  }
  return nullptr;
}

bool LanesConv::takes(const ConvGeometry& g, const LanesKernel& kernel) { return functions(g, kernel) != nullptr; }

LanesConv::LanesConv(const ConvGeometry& geometry, const LanesKernel& kernel, int threads)
    : geometry_(geometry), functions_(functions(geometry, kernel)), pixels_(kernel.pixels) {
  const ConvGeometry& g = geometry_;
  const int lanes = functions_->lanes, filters = g.group_out_channels(), channels = g.group_in_channels();
  for (int first = 0; first < g.out_channels; first += lanes) {
    // The last block computes some channels once more rather than fewer.
    const int output = std::min(first, g.out_channels - lanes);
    blocks_.push_back({std::min(output / filters * channels, g.in_channels - lanes), output});
  }
  for (const LaneBlock& block : blocks_) {
    for (int c = 0; c < channels; ++c) {
      for (int lane = 0; lane < lanes; ++lane) {
        places_.push_back((block.output + lane) / filters * channels + c - block.input);
      }
    }
  }
  if (depthwise() && functions_ == &kernel.widths.front() && g.dilation_width == 1) {
    for (const LanesRows& rows : kernel.rows) {
      if (rows.kernel == g.kernel_width && rows.stride == g.stride_width) rows_ = &rows;
    }
    if (g.kernel_height * g.kernel_width > chunk_terms) rows_ = nullptr;
  }
  const auto blocks = static_cast<int>(blocks_.size());
  const std::int64_t rows = g.batch * g.out_height;
  // No part is a single block: the last one may share channels with the one before it.
  if (rows < 8 * threads && blocks >= 2 * threads) {
    parts_ = threads;
  } else {
    bands_ =
        static_cast<int>(std::clamp<std::int64_t>(8 * threads / std::max<std::int64_t>(g.batch, 1), 1, g.out_height));
  }
}

std::string LanesConv::description() const {
  return detail::concat(depthwise() ? "depthwise: " : "grouped: ", functions_->lanes, " channels x ", pixels_,
                        " pixels in registers");
}

std::int64_t LanesConv::biases() const {
  return round_up<std::int64_t>(geometry_.out_channels, line) + round_up<std::int64_t>(geometry_.in_channels, line);
}

std::int64_t LanesConv::packed_size() const {
  return biases() + round_up<std::int64_t>(
                        static_cast<std::int64_t>(blocks_.size()) * geometry_.reduction() * functions_->lanes, line);
}

void LanesConv::pack(const float* weight, const float* bias, float* packed) const {
  const ConvGeometry& g = geometry_;
  const int lanes = functions_->lanes, channels = g.group_in_channels();
  std::fill(packed, packed + packed_size(), 0.0f);
  if (bias != nullptr) std::copy_n(bias, g.out_channels, packed);
  packed += biases();
  const std::int64_t taps = std::int64_t{g.kernel_height} * g.kernel_width;
  for (const LaneBlock& block : blocks_) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      for (int c = 0; c < channels; ++c) {
        for (int lane = 0; lane < lanes; ++lane) {
          *packed++ = weight[(std::int64_t{block.output + lane} * channels + c) * taps + tap];
        }
      }
    }
  }
}

/// One output row of an image.
struct LanesConv::Row {
  const float* input;    // the image's first row inside of the window, column 0
  const float* weights;  // of the first such row of the kernel
  const float* zeros;    // [C]
  float* output;
  const float* residual;  // or null
  const RowEpilogue& epilogue;
  const float* rest_residual;
  int first_channel, channels;  // of the tile's blocks
  const float* ahead;           // the first row that the next output row adds, to be fetched, or null
};

void LanesConv::run_row(const Row& row, LanesTile tile) const {
  const ConvGeometry& g = geometry_;
  const std::int64_t channels = g.in_channels, tap_weights = std::int64_t{g.group_in_channels()} * functions_->lanes;
  const auto compute = [&](void (*function)(const LanesTile&), int ow, int pixels) {
    const std::int64_t place = std::int64_t{ow} * g.out_channels;
    tile.output = row.output + place;
    if (row.ahead != nullptr) {
      const float* below = row.ahead + std::int64_t{ow} * g.stride_width * channels;
      const std::int64_t floats = std::int64_t{pixels} * g.stride_width * channels;
      for (int r = 0; r < g.stride_height; ++r, below += g.in_width * channels) {
        for (std::int64_t i = 0; i < floats; i += line) __builtin_prefetch(below + i, 0, 2);
      }
    }
    if (row.residual != nullptr) tile.residual = row.residual + place;
    function(tile);
    if (row.epilogue.rest.empty()) return;
    const bool whole = row.channels == g.out_channels;
    for (int i = 0; i < (whole ? 1 : pixels); ++i) {
      const std::int64_t at = place + std::int64_t{i} * g.out_channels + row.first_channel;
      apply_rest(row.epilogue, row.rest_residual == nullptr ? nullptr : row.rest_residual + at, row.output + at,
                 std::int64_t{whole ? pixels : 1} * row.channels);
    }
  };
  /// Pixels that see the same taps inside of the image.
  const auto compute_inside = [&](int ow, int pixels, bool whole_rows) {
    const int left = ow * g.stride_width - g.padding_width;
    const Taps taps(left, g.in_width, g.kernel_width, g.dilation_width);
    tile.taps = taps.size();
    tile.input = row.input + (tile.taps > 0 ? left + std::int64_t{taps.begin} * g.dilation_width : 0) * channels;
    tile.weights = row.weights + taps.begin * tap_weights;
    const auto& functions = depthwise() ? functions_->depthwise : functions_->grouped;
    compute((whole_rows && rows_ != nullptr ? rows_->inside : functions)[pixels - 1], ow, pixels);
  };
  constexpr int most_entries = 7 * 64;
  const float* table[most_entries];
  const auto compute_edge = [&](int ow, int pixels) {
    const int left = ow * g.stride_width - g.padding_width, columns = (pixels - 1) * g.stride_width + g.kernel_width;
    const float** entry = table;
    for (int r = 0; r < tile.rows; ++r) {
      const float* const from = row.input + r * tile.row;
      for (int column = left; column < left + columns; ++column) {
        *entry++ = column >= 0 && column < g.in_width ? from + column * channels : row.zeros;
      }
    }
    tile.pixels = table;
    tile.weights = row.weights;
    compute(rows_->edges[pixels - 1], ow, pixels);
  };
  const auto in_tiles = [&](int begin, int end, auto&& body) {
    const int count = ceil_div(end - begin, pixels_);
    for (int i = 0; i < count; ++i) {
      const int from = part_begin(end - begin, count, i);
      body(begin + from, part_begin(end - begin, count, i + 1) - from);
    }
  };

  // Pixels whose window lies inside of the image from left to right.
  const int begin = std::min(g.out_width, ceil_div(g.padding_width, g.stride_width));
  const int slack = g.in_width + g.padding_width - (g.kernel_width - 1) * g.dilation_width - 1;
  const int end = std::max(begin, slack < 0 ? 0 : std::min(g.out_width, slack / g.stride_width + 1));
  const int table_rows = (pixels_ - 1) * g.stride_width + g.kernel_width;
  const bool tabled = rows_ != nullptr && tile.rows * table_rows <= most_entries;
  // A table of a whole row's pixels is worth its while for many channels and few pixels: of the layer, not of the task,
  // since its sums begin with the bias and a result must not depend on how the work is divided.
  if (tabled && g.out_width <= 2 * pixels_ && blocks_.size() >= 8) {
    return in_tiles(0, g.out_width, compute_edge);
  }
  const auto edge = [&](int ow, int pixels) {
    if (tabled && pixels > 1) return compute_edge(ow, pixels);
    for (int i = 0; i < pixels; ++i) compute_inside(ow + i, 1, false);
  };
  in_tiles(0, begin, edge);
  in_tiles(begin, end, [&](int ow, int pixels) { compute_inside(ow, pixels, true); });
  in_tiles(end, g.out_width, edge);
}

void LanesConv::run(const ChannelsLastPointers& p, const RowEpilogue& epilogue, ThreadPool& pool, float*) const {
  const ConvGeometry& g = geometry_;
  const auto blocks = static_cast<int>(blocks_.size());
  const std::int64_t block_weights = g.reduction() * functions_->lanes,
                     row_pixels = std::int64_t{g.in_width} * g.in_channels;
  // The processor follows the rows of a window, but does not foresee where the next begins.
  const bool in_cache = g.batch * g.in_height * row_pixels <= cached_floats;
  pool.parallel_for(g.batch * bands_ * parts_, [&](std::int64_t index, int) {
    const auto part = static_cast<int>(index % parts_);
    index /= parts_;
    const auto band = static_cast<int>(index % bands_);
    const std::int64_t n = index / bands_;
    const int first_block = part_begin(blocks, parts_, part), last_block = part_begin(blocks, parts_, part + 1);
    const int first_channel = blocks_[static_cast<std::size_t>(first_block)].output;
    const int last_channel = blocks_[static_cast<std::size_t>(last_block - 1)].output + functions_->lanes;
    LanesTile tile;
    tile.pixel = std::int64_t{g.stride_width} * g.in_channels;
    tile.tap = std::int64_t{g.dilation_width} * g.in_channels;
    tile.row = g.dilation_height * row_pixels;
    tile.channels = g.group_in_channels();
    tile.flush = std::max(1, chunk_terms / tile.channels);
    tile.blocks = &blocks_[static_cast<std::size_t>(first_block)];
    tile.count = last_block - first_block;
    tile.block_pitch = block_weights;
    tile.row_pitch = block_weights / g.kernel_height;
    tile.places = &places_[static_cast<std::size_t>(first_block * functions_->lanes * tile.channels)];
    tile.bias = p.packed;
    tile.pitch = g.out_channels;
    tile.finish = &epilogue;
    for (int oh = part_begin(g.out_height, bands_, band); oh < part_begin(g.out_height, bands_, band + 1); ++oh) {
      const int top = oh * g.stride_height - g.padding_height;
      const Taps taps(top, g.in_height, g.kernel_height, g.dilation_height);
      tile.rows = taps.size();
      const int first_row = tile.rows > 0 ? top + taps.begin * g.dilation_height : 0;
      const int below = std::max(0, top + (g.kernel_height - 1) * g.dilation_height + 1);
      const std::int64_t place = (n * g.out_height + oh) * g.out_width * g.out_channels;
      run_row({.input = p.input + (n * g.in_height + first_row) * row_pixels,
               .weights = p.packed + biases() + first_block * block_weights + taps.begin * tile.row_pitch,
               .zeros = p.packed + round_up<std::int64_t>(g.out_channels, line),
               .output = p.output + place,
               .residual = epilogue.adds ? p.residual + place : nullptr,
               .epilogue = epilogue,
               .rest_residual = p.residual == nullptr ? nullptr : p.residual + place,
               .first_channel = first_channel,
               .channels = last_channel - first_channel,
               .ahead = below + g.stride_height <= g.in_height && !in_cache
                            ? p.input + (n * g.in_height + below) * row_pixels
                            : nullptr},
              tile);
    }
  });
}

}  // namespace lamina::cpu
