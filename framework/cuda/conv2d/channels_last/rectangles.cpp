#include "lamina/cuda/conv2d/channels_last/rectangles.h"

#include <algorithm>
#include <limits>

#include "lamina/base/math.h"
#include "lamina/kernel/rules/patches.h"

namespace lamina::cuda::channels_last {
namespace {

using lamina::detail::ceil_div;
using lamina::detail::is_of_pixels;

/// Stride 1, and windows that overlap or are single pixels, in a box that TMA can bring.
bool fits_boxes(const ConvGeometry& g, const Halo& halo) {
  constexpr int longest_side = 256;
  return g.stride_height == 1 && g.stride_width == 1 && (g.kernel_height * g.kernel_width > 1 || is_of_pixels(g)) &&
         halo.width <= longest_side && halo.height <= longest_side;
}

/// Steps of K that a tile goes through, on average.
double mean_steps(const ConvGeometry& g, const Tile& tile, const Halo& halo) {
  const int height = tile.pixels / rectangle_width;
  if (!halo.by_tap) return step_count(g, tile.operand);
  double rows = 0, columns = 0;
  for (int i = 0; i < halo.down; ++i) {
    rows += LiveTaps(i * height - g.padding_height, height, g.kernel_height, g.dilation_height, g.in_height).count();
  }
  for (int i = 0; i < halo.across; ++i) {
    columns +=
        LiveTaps(i * rectangle_width - g.padding_width, rectangle_width, g.kernel_width, g.dilation_width, g.in_width)
            .count();
  }
  return slab_count(g, tile.operand) * rows / halo.down * columns / halo.across;
}

/// What a launch takes in clock cycles.
double expected_cycles(const ConvGeometry& g, const Tile& tile, const Choice& choice, std::int64_t tiles) {
  constexpr double beginning = 3130, l2_bytes_per_cycle = 45, of_step = 30, of_tile = 900;
  const double steps = mean_steps(g, tile, choice.halo), slabs = slab_count(g, tile.operand);
  const double weights = steps * tile.stage_bytes,
               boxes = (choice.halo.by_tap ? steps : slabs) * choice.halo.box_bytes();
  const double products = 2.0 * tile.groups * tile.pixels * steps;
  const double brought = (boxes + (choice.halo.resident ? 0 : weights)) / l2_bytes_per_cycle;
  // One team stores while another multiplies.
  const double alone_in_block = std::max(products, brought) + steps * of_step + of_tile;
  const double of_one = tile.teams > 1 ? std::max({products * 1.08, brought, alone_in_block / 2}) : alone_in_block;
  const double rounds = static_cast<double>(ceil_div<std::int64_t>(tiles, choice.blocks));
  const double alone = tile.teams > 1 ? of_tile : 0;
  return beginning + (choice.halo.resident ? weights / l2_bytes_per_cycle / 4 : 0) + rounds * of_one + alone;
}

bool has_room(const Choice& choice, bool adds, const DeviceDescription& device) {
  return rectangles_shared_bytes(choice.tile, choice.halo, choice.stages, adds, choice.log2_buffers) <=
         device.shared_bytes;
}

/// Adds to `value` while there is room for it.
template <class HasRoom>
void grow(int& value, int most, HasRoom&& has_room) {
  while (value < most) {
    ++value;
    if (!has_room()) return void(--value);
  }
}

/// How a block's shared memory is laid out; false if it is too small. Weights stay if they can; a ring of them is read
/// by one team alone. What is added comes as far ahead as there is room.
bool arrange(Choice& choice, int steps, bool single, bool adds, const DeviceDescription& device) {
  constexpr int least_stages = 4;
  const Tile& tile = choice.tile;
  Halo& halo = choice.halo;
  const int least_log2 = tile.store_pixels == tile.pixels && !adds ? 0 : 1,
            box_limit = halo.by_tap ? max_boxes : (single ? max_boxes : 4) / tile.teams;
  const auto room = [&] { return has_room(choice, adds, device); };
  const auto fits = [&](bool resident, int log2_buffers) {
    halo.resident = resident, choice.log2_buffers = log2_buffers;
    halo.boxes = halo.by_tap ? least_stages : 2, choice.stages = resident ? steps : std::min(steps, least_stages);
    if (choice.stages > max_halo_stages || (resident ? halo.by_tap : tile.teams > 1) || !room()) return false;
    grow(halo.boxes, box_limit, room);
    if (!resident) grow(choice.stages, max_stages, room);
    return true;
  };
  for (const bool resident : {true, false}) {
    for (int log2 = adds ? max_log2_buffers : least_log2; log2 >= least_log2; --log2) {
      if (fits(resident, log2)) return true;
    }
  }
  return false;
}

}  // namespace

int rectangles_shared_bytes(const Tile& tile, const Halo& halo, int stages, bool adds, int log2_buffers) {
  constexpr int barrier_bytes = static_cast<int>(sizeof(std::uint64_t));
  const int buffers = tile.groups * tile.teams << log2_buffers;
  return tile.teams * halo.boxes * halo.box_bytes() + stages * tile.stage_bytes +
         buffers * tile.store_pixels * step_bytes +
         (2 * max_boxes + 2 * max_halo_stages + (adds ? 2 * buffers : 0)) * barrier_bytes;
}

ConvGeometry in_rectangles(const ConvGeometry& g) {
  const std::int64_t pixels = g.batch * g.out_pixels();
  if (!is_of_pixels(g) || pixels % rectangle_width != 0) return g;
  ConvGeometry rows = g;
  rows.batch = 1;
  rows.in_height = rows.out_height = static_cast<int>(pixels / rectangle_width);
  rows.in_width = rows.out_width = rectangle_width;
  return rows;
}

std::optional<Choice> fit_rectangles(const ConvGeometry& geometry, const Tile& tile, const DeviceDescription& device,
                                     const Demands& demands) {
  const bool single = is_of_pixels(geometry), adds = demands.adds;
  // Single pixels would come again for other filters; and pools are of images.
  if (single && (demands.sum || demands.pooled || geometry.out_channels > tile.groups * block_filters)) {
    return std::nullopt;
  }
  const ConvGeometry g = in_rectangles(geometry);
  const int height = tile.pixels / rectangle_width, steps = step_count(g, tile.operand);
  Choice choice = {.tile = tile, .images = static_cast<int>(g.batch)};
  Halo& halo = choice.halo;
  halo = {.across = ceil_div(g.out_width, rectangle_width),
          .down = ceil_div(g.out_height, height),
          .width = rectangle_width + (g.kernel_width - 1) * g.dilation_width,
          .height = height + (g.kernel_height - 1) * g.dilation_height};
  const int filter_tiles = ceil_div(ceil_div(g.out_channels, block_filters), tile.groups);
  const std::int64_t tiles = g.batch * halo.across * halo.down * filter_tiles;
  if (tiles > std::numeric_limits<int>::max()) return std::nullopt;
  if (!fits_boxes(g, halo) || !arrange(choice, steps, single, adds, device)) {
    halo.width = rectangle_width, halo.height = height, halo.by_tap = true;
    if (!fits_boxes(g, halo) || !arrange(choice, steps, single, adds, device)) return std::nullopt;
  }
  // Where weights stay, all tiles of a block are of the same filters.
  const int most = halo.resident ? device.multiprocessors / filter_tiles * filter_tiles : device.multiprocessors;
  if (most == 0) return std::nullopt;
  choice.blocks = static_cast<int>(std::min<std::int64_t>(most, tiles));
  choice.cycles = expected_cycles(g, tile, choice, tiles);
  return choice;
}

}  // namespace lamina::cuda::channels_last
