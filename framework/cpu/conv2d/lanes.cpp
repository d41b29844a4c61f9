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
/// The longest chain of multiply-adds: docs/precision.md.
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
  const auto blocks = static_cast<int>(blocks_.size());
  const std::int64_t rows = g.batch * g.out_height;
  // No part is a single block: the last one may share channels with the one before it.
  if (rows < 8 * threads && blocks >= 2 * threads) {
    parts_ = threads;
  } else {
    bands_ = static_cast<int>(std::clamp<std::int64_t>(8 * threads / g.batch, 1, g.out_height));
  }
}

std::string LanesConv::description() const {
  return detail::concat(depthwise() ? "depthwise: " : "grouped: ", functions_->lanes, " channels x ", pixels_,
                        " pixels in registers");
}

std::int64_t LanesConv::packed_size() const {
  return round_up<std::int64_t>(geometry_.out_channels, line) +
         round_up<std::int64_t>(static_cast<std::int64_t>(blocks_.size()) * geometry_.reduction() * functions_->lanes,
                                line);
}

void LanesConv::pack(const float* weight, const float* bias, float* packed) const {
  const ConvGeometry& g = geometry_;
  const int lanes = functions_->lanes, channels = g.group_in_channels();
  std::fill(packed, packed + packed_size(), 0.0f);
  if (bias != nullptr) std::copy_n(bias, g.out_channels, packed);
  packed += round_up<std::int64_t>(g.out_channels, line);
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

void LanesConv::run(const ChannelsLastPointers& p, const RowEpilogue& epilogue, ThreadPool& pool, float*) const {
  const ConvGeometry& g = geometry_;
  const int lanes = functions_->lanes, channels = g.group_in_channels();
  const auto blocks = static_cast<int>(blocks_.size());
  const auto& tiles = depthwise() ? functions_->depthwise : functions_->grouped;
  const std::int64_t block_pitch = g.reduction() * lanes, tap_weights = std::int64_t{channels} * lanes;
  const float* const packed = p.packed + round_up<std::int64_t>(g.out_channels, line);
  // Pixels whose window lies inside of the image from left to right.
  const int inner_begin = std::min(g.out_width, ceil_div(g.padding_width, g.stride_width));
  const int slack = g.in_width + g.padding_width - (g.kernel_width - 1) * g.dilation_width - 1;
  const int inner_end = std::max(inner_begin, slack < 0 ? 0 : std::min(g.out_width, slack / g.stride_width + 1));
  pool.parallel_for(g.batch * bands_ * parts_, [&](std::int64_t index, int) {
    const auto part = static_cast<int>(index % parts_);
    index /= parts_;
    const auto band = static_cast<int>(index % bands_);
    const std::int64_t n = index / bands_;
    const int first_block = part_begin(blocks, parts_, part), last_block = part_begin(blocks, parts_, part + 1);
    const int first_channel = blocks_[static_cast<std::size_t>(first_block)].output;
    const int last_channel = blocks_[static_cast<std::size_t>(last_block - 1)].output + lanes;
    LanesTile tile;
    tile.pixel = std::int64_t{g.stride_width} * g.in_channels;
    tile.tap = std::int64_t{g.dilation_width} * g.in_channels;
    tile.row = std::int64_t{g.dilation_height} * g.in_width * g.in_channels;
    tile.channels = channels;
    tile.flush = std::max(1, chunk_terms / channels);
    tile.blocks = &blocks_[static_cast<std::size_t>(first_block)];
    tile.count = last_block - first_block;
    tile.block_pitch = block_pitch;
    tile.row_pitch = g.kernel_width * tap_weights;
    tile.places = &places_[static_cast<std::size_t>(first_block * tap_weights)];
    tile.bias = p.packed;
    tile.pitch = g.out_channels;
    tile.finish = &epilogue;
    for (int oh = part_begin(g.out_height, bands_, band); oh < part_begin(g.out_height, bands_, band + 1); ++oh) {
      const int top = oh * g.stride_height - g.padding_height;
      const Taps rows(top, g.in_height, g.kernel_height, g.dilation_height);
      tile.rows = rows.size();
      const std::int64_t first_row = top + std::int64_t{rows.begin} * g.dilation_height;
      const float* const row =
          p.input + (n * g.in_height + (tile.rows > 0 ? first_row : 0)) * g.in_width * g.in_channels;
      const float* const row_weights = packed + first_block * block_pitch + rows.begin * tile.row_pitch;
      const auto compute = [&](int ow, int pixels) {
        const int left = ow * g.stride_width - g.padding_width;
        const Taps taps(left, g.in_width, g.kernel_width, g.dilation_width);
        tile.taps = taps.size();
        tile.input = row + (tile.taps > 0 ? left + std::int64_t{taps.begin} * g.dilation_width : 0) * g.in_channels;
        tile.weights = row_weights + taps.begin * tap_weights;
        const std::int64_t place = ((n * g.out_height + oh) * g.out_width + ow) * g.out_channels;
        tile.output = p.output + place;
        if (epilogue.adds) tile.residual = p.residual + place;
        tiles[pixels - 1](tile);
        if (epilogue.rest.empty()) return;
        const bool whole = parts_ == 1;
        for (int i = 0; i < (whole ? 1 : pixels); ++i) {
          const std::int64_t at = place + std::int64_t{i} * g.out_channels + first_channel;
          apply_rest(epilogue.rest, p.residual == nullptr ? nullptr : p.residual + at, p.output + at,
                     std::int64_t{whole ? pixels : 1} * (last_channel - first_channel));
        }
      };
      for (int ow = 0; ow < inner_begin; ++ow) compute(ow, 1);
      const int inner = inner_end - inner_begin, count = ceil_div(inner, pixels_);
      for (int i = 0; i < count; ++i) {
        const int from = part_begin(inner, count, i);
        compute(inner_begin + from, part_begin(inner, count, i + 1) - from);
      }
      for (int ow = inner_end; ow < g.out_width; ++ow) compute(ow, 1);
    }
  });
}

}  // namespace lamina::cpu
