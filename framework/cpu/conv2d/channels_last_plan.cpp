// Before a channels-last convolution runs: blocks and chunks, the division of work, packed weights.

#include "lamina/cpu/conv2d/channels_last.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "lamina/base/error.h"
#include "lamina/base/in_parallel.h"
#include "lamina/base/math.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/patches.h"
#include "lamina/tensor/constants.h"

namespace lamina::cpu {
namespace {

using detail::ceil_div;
using detail::round_up;
using detail::SeenTaps;

/// Floats of a task's padded copy of input rows, unless a single output row needs more, and of its sums beside the
/// chunk of its input: each half of a 1 MB L2. Of that chunk alone, read where the image lies, a
/// sixth: lines around it come along.
constexpr std::int64_t copy_floats = 128 << 10, sum_floats = 128 << 10, chunk_floats = 44 << 10;

/// A 1x1 kernel that reads every pixel once sees no rows: the pixels of an image, if it copies and scales them, are a
/// few long ones, which threads share out.
ConvGeometry in_long_rows(ConvGeometry g, int threads) {
  const std::int64_t pixels = g.in_pixels();
  if (pixels > std::numeric_limits<int>::max()) return g;
  int rows = g.in_height;
  for (int fewer = rows - 1; fewer >= std::max(4, 2 * threads); --fewer) {
    if (pixels % fewer == 0) rows = fewer;
  }
  g.in_height = g.out_height = rows;
  g.in_width = g.out_width = static_cast<int>(pixels / rows);
  return g;
}

/// And no images else: all pixels of the batch are one row.
ConvGeometry flattened(ConvGeometry g, int threads, bool scaled) {
  if (!detail::is_of_pixels(g)) return g;
  if (scaled) return in_long_rows(g, threads);
  const std::int64_t pixels = g.batch * g.out_pixels();
  if (pixels == 0 || pixels > std::numeric_limits<int>::max()) return g;
  g.batch = g.in_height = g.out_height = 1;
  g.in_width = g.out_width = static_cast<int>(pixels);
  return g;
}

/// The most vectors of filters whose tiles have 16 accumulators or more in use where rows are cut into equal parts: a
/// row of 7 is one tile of 3 vectors, not two of 4.
int vectors_of_block(int columns, const ChannelsLastKernel& kernel) {
  const auto accumulators = [&](int vectors) {
    const std::int64_t tiles = ceil_div(columns, kernel.tiles[static_cast<std::size_t>(vectors - 1)].pixels);
    return std::min<std::int64_t>(16, std::int64_t{columns} * vectors / std::max<std::int64_t>(tiles, 1));
  };
  int best = static_cast<int>(kernel.tiles.size());
  for (int vectors = best - 1; vectors >= 1; --vectors) {
    if (accumulators(vectors) > accumulators(best)) best = vectors;
  }
  return best;
}

}  // namespace

ChannelsLastConv::ChannelsLastConv(const ConvGeometry& geometry, const ChannelsLastKernel& kernel, int threads,
                                   bool scaled)
    : geometry_(flattened(geometry, threads, scaled)), kernel_(&kernel), threads_(threads), scaled_(scaled) {
  const ConvGeometry& g = geometry_;
  vectors_ = ceil_div(geometry.group_out_channels(), kernel.lanes);
  wide_ = vectors_of_block(g.out_width, kernel);
  blocks_ = ceil_div(vectors_, wide_);
  const std::int64_t k = geometry.reduction();
  // Pixels that lie a multiple of 4 KB apart share the 8 to 12 lines of a set of L1, which weights need too.
  const std::int64_t pixel = std::int64_t{g.stride_width} * g.in_channels;
  max_pixels_ = pixel % 1024 == 0 ? 8 : std::numeric_limits<int>::max();
  chunk_ = std::min(k, round_up(ceil_div(k, ceil_div(k, chunk_terms)), line));
  chunks_ = ceil_div(k, chunk_);
  choose_columns();
  divide();
}

/// Tiles of the columns [first, last) of a row.
int ChannelsLastConv::tiles_of(int block, int first, int last) const {
  int tiles = 0;
  for (const SeenTaps& seen : columns_) {
    tiles += ceil_div(std::max(0, std::min(seen.end, last) - std::max(seen.begin, first)), tile_pixels(block));
  }
  return tiles;
}

/// Whether rows are read where they lie, by tiles of pixels that have the same taps inside of the image, or between
/// copied zeros, which all tiles multiply.
void ChannelsLastConv::choose_columns() {
  const ConvGeometry& g = geometry_;
  columns_ = {{0, g.out_width, 0, g.kernel_width}};
  if (scaled_ || g.zeros_right() == 0) return;
  const std::vector<SeenTaps> parts = detail::seen_columns(g);
  // A tile of fewer pixels takes what one of 4 does.
  const auto cost = [](std::int64_t sum, const SeenTaps& part) {
    return sum + std::int64_t{part.taps()} * std::max(part.outputs(), 4);
  };
  leaves_taps_out_ = std::accumulate(parts.begin(), parts.end(), std::int64_t{0}, cost) < cost(0, columns_[0]);
  if (leaves_taps_out_) columns_ = parts;
}

/// Image rows that `rows` output rows read.
std::int64_t ChannelsLastConv::rows_read(std::int64_t rows) const {
  const ConvGeometry& g = geometry_;
  const std::int64_t window = (rows - 1) * g.stride_height + (g.kernel_height - 1) * g.dilation_height + 1;
  return std::min<std::int64_t>(window, g.in_height);
}

void ChannelsLastConv::divide() {
  const ConvGeometry& g = geometry_;
  const auto k = static_cast<double>(g.reduction());
  const std::int64_t blocks = std::int64_t{g.groups} * blocks_;
  const std::int64_t copied_row = g.padded_width() * g.in_channels;
  // In clock cycles, two multiply-adds in each: the aim is only to weigh what every task does again, copying rows and
  // reading weights, against idle threads. docs/inside/cpu.md has the rates.
  const double block_cost = 0.5 * k * block_vectors(0);
  const double weight_cost = 0.16 * k * block_size(0);
  const double read_cost = copies() ? 0.0 : 0.2 * k;
  const double copy_cost = copies() ? 0.15 * static_cast<double>(copied_row) : 0.0;
  constexpr double task_cost = 3000;
  double least = std::numeric_limits<double>::max();
  const auto consider = [&](std::int64_t images, std::int64_t bands, std::int64_t spans) {
    const std::int64_t rows = ceil_div<std::int64_t>(g.out_height, bands);
    const std::int64_t pixels = images * rows * ceil_div<std::int64_t>(g.out_width, spans);
    const std::int64_t copy = copies() ? images * rows_read(rows) * copied_row : 0;
    const bool least_work = images == 1 && rows == 1 && (copies() || pixels <= tile_pixels(0));
    for (std::int64_t parts = 1; parts <= blocks; ++parts) {
      const std::int64_t part = ceil_div(blocks, parts);
      const std::int64_t filters = part * block_size(0);
      // A part that begins within a group reaches into one more.
      const std::int64_t groups = std::min<std::int64_t>(g.groups, (part + 2 * blocks_ - 2) / blocks_);
      const std::int64_t part_copy = copy / g.groups * groups;
      const std::int64_t sums = pixels * (chunk_ + (chunks_ > 1 ? filters : 0));
      const bool fits = part_copy <= copy_floats && sums <= sum_floats && (copies() || pixels * chunk_ <= chunk_floats);
      if (!fits && !(least_work && parts == blocks)) continue;
      const auto tasks = ceil_div(g.batch, images) * bands * spans * parts;
      const double copying =
          copy_cost * static_cast<double>((copies() ? images * rows_read(rows) : 0) * groups) / g.groups;
      const double task = (static_cast<double>(pixels) * block_cost + weight_cost) * static_cast<double>(part) +
                          static_cast<double>(pixels) * read_cost + copying + task_cost;
      // The second term: threads rarely start together or run equally fast, so a long last task is a risk.
      const double cost =
          task * static_cast<double>(ceil_div<std::int64_t>(tasks, threads_)) + (threads_ > 1 ? task / 32 : 0);
      if (cost >= least) continue;
      least = cost;
      images_ = images, bands_ = bands, spans_ = spans, block_parts_ = static_cast<int>(parts);
      copy_floats_ = round_up(part_copy, line);
      sum_floats_ = chunks_ > 1 ? round_up(pixels * filters, line) : 0;
    }
  };
  for (std::int64_t images = std::min<std::int64_t>(g.batch, 64); images > 1; --images) consider(images, 1, 1);
  for (std::int64_t rows = g.out_height; rows >= 1; --rows) {
    const std::int64_t bands = ceil_div<std::int64_t>(g.out_height, rows);
    consider(1, bands, 1);
    rows = ceil_div<std::int64_t>(g.out_height, bands);  // fewer rows make as many bands
  }
  const std::int64_t most = ceil_div<std::int64_t>(g.out_width, tile_pixels(0));
  for (std::int64_t spans = 2; spans <= most && !copies(); spans += 1 + spans / 16) consider(1, g.out_height, spans);
}

std::string ChannelsLastConv::description() const {
  return detail::concat("channels last: ", block_size(0), " filters x ", tile_pixels(0), " pixels in registers",
                        scaled_ ? ", input scaled as it is copied" : "");
}

std::int64_t ChannelsLastConv::packed_size() const {
  return geometry_.groups * (round_up<std::int64_t>(padded(), line) + geometry_.reduction() * padded());
}

void ChannelsLastConv::pack(const float* weight, const float* bias, float* packed) const {
  const ConvGeometry& g = geometry_;
  const std::int64_t k = g.reduction(), filters = g.group_out_channels(), channels = g.group_in_channels();
  const std::int64_t taps = std::int64_t{g.kernel_height} * g.kernel_width;
  const std::int64_t biases = round_up<std::int64_t>(padded(), line);
  std::fill(packed, packed + (padded() == filters ? g.groups * biases : packed_size()), 0.0f);
  for (int group = 0; group < g.groups && bias != nullptr; ++group) {
    std::copy_n(bias + group * filters, filters, packed + group * biases);
  }
  packed += g.groups * biases;
  // Rows of filters lie a multiple of some KB apart, in a few lines of the L1 cache: pieces of some are put together.
  constexpr std::int64_t rows = 16, piece_terms = 128, row = piece_terms + 1;
  struct Place {
    std::int64_t begin, terms, i;  // of the chunk, and in it
  };
  std::vector<Place> places(static_cast<std::size_t>(k));  // of the terms in the order of a filter's weights
  for (std::int64_t at = 0; at < k; ++at) {
    const std::int64_t i = at % taps * channels + at / taps, begin = i / chunk_ * chunk_;
    places[static_cast<std::size_t>(at)] = {begin, std::min(k - begin, chunk_), i - begin};
  }
  const auto pack_piece = [&](std::int64_t group, int b, std::int64_t filter, std::int64_t from, std::int64_t to) {
    float some[rows * row];
    const std::int64_t first = first_filter(b), size = block_size(b);
    const std::int64_t count = std::min({rows, size - filter, filters - first - filter});
    for (std::int64_t f = 0; f < count; ++f) {
      const float* const weights = weight + (group * filters + first + filter + f) * k;
      std::copy(weights + from, weights + to, some + f * row);
    }
    for (std::int64_t at = from; at < to; ++at) {
      const auto [begin, terms, i] = places[static_cast<std::size_t>(at)];
      float* const out = packed + (group * k + begin) * padded() + terms * first + i * size + filter;
      for (std::int64_t f = 0; f < count; ++f) out[f] = some[f * row + at - from];
    }
  };
  const auto pack_block = [&](std::int64_t group, int b) {
    const std::int64_t exist = std::min<std::int64_t>(block_size(b), filters - first_filter(b));
    for (std::int64_t from = 0; from < k; from += piece_terms) {
      for (std::int64_t f = 0; f < exist; f += rows) pack_piece(group, b, f, from, std::min(k, from + piece_terms));
    }
  };
  const auto blocks = static_cast<std::size_t>(blocks_);
  const auto piece = static_cast<std::size_t>(1 + (1 << 18) / (k * block_size(0)));
  detail::in_parallel(static_cast<std::size_t>(g.groups) * blocks, piece, [&](std::size_t from, std::size_t to) {
    for (; from < to; ++from) pack_block(static_cast<std::int64_t>(from / blocks), static_cast<int>(from % blocks));
  });
}

Tensor ChannelsLastConv::packed(const Tensor& weight, const Tensor& bias) const {
  const ConvGeometry& g = geometry_;
  const detail::Packing how("channels last", g.groups, g.in_channels, g.out_channels, g.kernel_height, g.kernel_width,
                            kernel_, wide_, chunk_);
  return detail::packed(how, {weight, bias}, {packed_size()}, DType::f32,
                        [&](Tensor& to) { pack(detail::floats(weight), detail::floats(bias), detail::floats(to)); });
}

}  // namespace lamina::cpu
