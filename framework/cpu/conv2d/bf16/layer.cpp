// How a convolution is laid out, divided among threads and packed for an engine.

#include <algorithm>
#include <limits>

#include "lamina/base/in_parallel.h"
#include "lamina/base/math.h"
#include "lamina/cpu/conv2d/bf16/convolution.h"
#include "lamina/kernel/rules/patches.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cpu::bf16 {
namespace {

using detail::ceil_div;
using detail::round_up;

/// Positions of a tile of AMX, which are read even if there are fewer.
constexpr int max_rows = 16;

int steps_of(int channels, int taps) { return ceil_div(channels, step_channels) * taps; }

std::size_t aligned(std::int64_t bytes) { return static_cast<std::size_t>(round_up<std::int64_t>(bytes, 64)); }

/// The runs of columns that are better computed apart; none if the convolution is better one Layer.
std::vector<detail::SeenTaps> columns_apart(const ConvGeometry& g, const Engine& engine) {
  if (g.zeros_right() == 0) return {};
  std::vector<detail::SeenTaps> result = detail::seen_columns(g);
  double products = 0;
  for (detail::SeenTaps& columns : result) {
    if (columns.taps() == 0) columns.first_tap = 0, columns.last_tap = 1;  // of zeros
    products += columns.outputs() * columns.taps();
  }
  // Beside positions that are no outputs or multiply zeros stands a copy for each tap, which takes an eighth of a cycle
  // for each channel.
  const double together = (g.out_width + (g.kernel_width - 1.0) * g.dilation_width / g.stride_width) * g.kernel_width;
  const double copying = engine.rate / 8 / g.group_out_channels();
  return products * (1.25 + copying) < together ? result : std::vector<detail::SeenTaps>();
}

}  // namespace

Layer::Layer(const ConvGeometry& g, const Engine& with, Format from, int threads, bool with_scale, int band,
             bool may_fold)
    : geometry(g),
      engine(&with),
      moves(&moves_of(with.set, with.unit != Unit::multiply_add)),
      input(from),
      scaled(with_scale),
      folds(may_fold),
      row_taps(g.kernel_width) {
  lay_out();
  if (band == 0) divide(threads);
  band_rows = band > 0 ? band : static_cast<int>(ceil_div<std::int64_t>(rows, bands));
  place_taps();
}

Layer::Layer(const ConvGeometry& g, const Engine& with, Format from, int threads, const detail::SeenTaps& columns)
    : geometry(g),
      engine(&with),
      moves(&moves_of(with.set, with.unit != Unit::multiply_add)),
      input(from),
      scaled(false),
      apart(true),
      first_column(columns.begin),
      first_tap(columns.first_tap),
      row_taps(g.kernel_width) {
  geometry.out_width = columns.outputs();
  geometry.kernel_width = columns.taps();
  geometry.padding_width -= first_tap * g.dilation_width + first_column * g.stride_width;
  lay_out();
  out_row = g.out_width;
  divide(threads);
  band_rows = static_cast<int>(ceil_div<std::int64_t>(rows, bands));
  place_taps();
}

/// Once the rows of a band are known.
void Layer::place_taps() {
  const ConvGeometry& g = geometry;
  phase_rows = band_rows + extra_rows;
  const std::int64_t phase = std::int64_t{phase_rows} * pitch * step_channels;
  const std::int64_t block = phase * static_cast<std::int64_t>(phases.size());
  for (int step = 0; apart && step < steps(); ++step) offsets.push_back(block_of(step) * block + tap_of(step) * phase);
  for (int b = 0; b < (apart ? 0 : blocks); ++b) {
    if (direct) {
      offsets.push_back(first_channel(b));
      continue;
    }
    for (int tap = 0; tap < taps; ++tap) {
      const int kh = folded > 0 ? tap : tap / g.kernel_width, kw = folded > 0 ? 0 : tap % g.kernel_width;
      const int row = kh * g.dilation_height, column = kw * g.dilation_width;
      const auto found = std::ranges::find_if(
          phases, [&](const Phase& p) { return p.row == row % g.stride_height && p.column == column % column_phases; });
      offsets.push_back(b * block + (found - phases.begin()) * phase +
                        (row / g.stride_height * pitch + column / column_phases) * step_channels);
    }
  }
}

void Layer::lay_out() {
  const ConvGeometry& g = geometry;
  const bool pixels = detail::is_of_pixels(g);
  // AMX reads whole steps where pixels lie, so that the last one may overlap the one before: the order of sums is then
  // another, which must not depend on the batch.
  const bool same_order = engine->unit != Unit::amx || g.group_in_channels() <= step_channels ||
                          g.group_in_channels() % step_channels == 0 || g.out_pixels() >= max_rows;
  direct = !scaled && !apart && same_order && engine->any_pixel && pixels &&
           input == Format{DType::bf16, Layout::nhwc} &&
           (g.group_in_channels() % 2 == 0 || (engine->unit == Unit::amx && g.group_in_channels() >= step_channels)) &&
           g.batch * g.out_pixels() >= max_rows;
  if (folds && !direct && !scaled && !apart && g.groups == 1 && g.dilation_width == 1 &&
      steps_of(g.kernel_width * g.in_channels, 1) < steps_of(g.in_channels, g.kernel_width)) {
    const bool all = g.dilation_height == 1 && g.kernel_height * g.kernel_width * g.in_channels <= step_channels;
    folded = all ? g.kernel_height : 1;
  }
  channels = g.group_in_channels() * (folded > 0 ? folded * g.kernel_width : 1);
  taps = g.kernel_height * g.kernel_width * g.group_in_channels() / channels;
  blocks = ceil_div(channels, step_channels);
  // AMX's tiles have one width for all steps.
  const bool whole = apart || (engine->unit == Unit::amx && steps() > 1);
  last_pairs = whole ? 16 : ceil_div(channels - (blocks - 1) * step_channels, 2);
  filter_blocks = ceil_div(g.group_out_channels(), engine->filters);
  linear = pixels && folded == 0 && !apart && input.layout == Layout::nhwc;
  if (linear) {
    rows = g.batch * g.out_pixels();
    row_positions = pitch = out_row = 1;
    phases = {{0, 0}};
    return;
  }
  images = g.batch;
  rows = g.out_height;
  row_positions = out_row = g.out_width;
  if (apart) {
    pitch = g.out_width;
    for (int tap = 0; tap < taps; ++tap) {
      phases.push_back({tap / g.kernel_width * g.dilation_height, tap % g.kernel_width * g.dilation_width});
    }
    return;
  }
  const int last_column = folded > 0 ? 0 : (g.kernel_width - 1) * g.dilation_width, more = last_column / g.stride_width;
  // Positions that are no outputs take half a cycle for each four of channels and vector of filters, copies of 32
  // channels four.
  const int copies = g.kernel_width - std::min(g.kernel_width, g.stride_width);
  const bool own = size_of(engine->operand) == 1 && more * taps * filter_blocks * 16 > copies * g.out_width * 4;
  column_phases = own ? last_column + 1 : g.stride_width;
  pitch = g.out_width + last_column / column_phases;
  const bool whole_window = folded == g.kernel_height;
  extra_rows = whole_window ? 0 : (g.kernel_height - 1) * g.dilation_height / g.stride_height;
  for (int row = 0; row < g.stride_height; ++row) {
    for (int column = 0; column < column_phases; ++column) {
      bool reads_row = false, reads_column = false;
      for (int k = 0; k < g.kernel_height; ++k) reads_row |= k * g.dilation_height % g.stride_height == row;
      for (int k = 0; k < g.kernel_width; ++k) reads_column |= k * g.dilation_width % column_phases == column;
      if (whole_window) reads_row = row == 0;
      if (reads_row && (folded > 0 ? column == 0 : reads_column)) phases.push_back({row, column});
    }
  }
}

void Layer::divide(int threads) {
  const ConvGeometry& g = geometry;
  const double band_bytes = static_cast<double>(engine->cache) / 2;
  const double element = engine->widened ? 4 : 2;
  const double row_elements = static_cast<double>(pitch) * blocks * step_channels * static_cast<double>(phases.size());
  const double row_products = static_cast<double>(pitch) * steps() * step_channels * engine->filters / engine->rate;
  const double weight_bytes = static_cast<double>(steps()) * step_channels * engine->filters * 2;
  // In clock cycles, to weigh idle threads against what every task does again: copying rows, reading weights.
  // What is read where it lies is read again for each part of the filters.
  constexpr double task_cost = 3000, cycles_per_copied_byte = 1.0 / 16, cycles_per_weight_byte = 1.0 / 12;
  double least = std::numeric_limits<double>::max();
  for (std::int64_t n = 1; n <= rows; n = n == rows ? n + 1 : std::min(rows, n < 16 ? n + 1 : n + n / 8)) {
    if (direct && rows / n < max_rows) break;  // the last tile of a band may reach back, not before the band
    const std::int64_t tall = ceil_div(rows, n);
    const double copied = static_cast<double>(tall + extra_rows) * row_elements * element;
    for (int parts = 1; parts <= filter_blocks; ++parts) {
      const int max_blocks = ceil_div(filter_blocks, parts);
      const double task =
          (static_cast<double>(tall) * row_products + weight_bytes * cycles_per_weight_byte) * max_blocks +
          copied * (direct ? 0.5 : 1.0) * cycles_per_copied_byte + task_cost;
      const auto tasks = images * g.groups * n * parts;
      double cost = task * static_cast<double>(ceil_div<std::int64_t>(tasks, threads)) + (threads > 1 ? task / 32 : 0);
      if (copied > band_bytes) cost *= 1 + copied / band_bytes;  // it would not stay in the cache
      if (cost < least) {
        least = cost;
        bands = static_cast<int>(n);
        filter_parts = parts;
      }
    }
  }
}

int Layer::first_channel(int block) const {
  const int first = block * step_channels;
  return direct && engine->unit == Unit::amx ? std::min(first, std::max(0, channels - step_channels)) : first;
}

std::int64_t Layer::block_weights() const {
  return (std::int64_t{whole_steps()} * 16 + std::int64_t{steps() - whole_steps()} * last_pairs) * 2 * engine->filters;
}

std::size_t Layer::copy_bytes() const {
  if (direct) return 0;
  const std::int64_t positions = static_cast<std::int64_t>(phases.size()) * phase_rows * pitch * blocks + max_rows;
  return aligned(positions * step_channels * (engine->widened ? 4 : 2));
}

std::size_t Layer::row_bytes() const {
  const ConvGeometry& g = geometry;
  const std::int64_t planes = std::int64_t{g.in_width} * g.in_channels;
  if (folded > 0) return aligned(((folded + 1) * row_elements() + planes) * 2);
  return input == Format{DType::bf16, Layout::nhwc} ? 0 : aligned((row_elements() + planes) * 2);
}

std::int64_t Layer::row_elements() const {
  const ConvGeometry& g = geometry;
  const std::int64_t width = (g.out_width - 1) * std::int64_t{g.stride_width} + g.kernel_width;
  const std::int64_t there = g.in_width + std::int64_t{g.padding_width};
  return (folded > 0 ? std::max(width, there) : g.in_width) * g.in_channels;
}

std::size_t Layer::tile_bytes() const { return aligned(std::int64_t{engine->positions} * engine->filters * 4); }

std::size_t Layer::workspace(int threads) const {
  return (copy_bytes() + row_bytes() + 4 * tile_bytes()) * static_cast<std::size_t>(threads);
}

std::vector<Layer> layers_of(const ConvGeometry& g, const Engine& engine, Format input, int threads, bool scaled,
                             bool folds) {
  std::vector<Layer> result;
  for (const detail::SeenTaps& columns : columns_apart(g, engine)) {
    result.push_back(Layer(g, engine, input, threads, columns));
  }
  if (result.empty()) result.push_back(Layer(g, engine, input, threads, scaled, 0, folds));
  return result;
}

detail::Packing Layer::packing(std::string_view kind, int in_channels) const {
  const ConvGeometry& g = geometry;
  return detail::Packing(kind, in_channels, g.groups, g.in_channels, g.out_channels, g.kernel_height, g.kernel_width,
                         engine, apart, direct, folded, first_tap, row_taps, channels, taps, blocks, last_pairs,
                         filter_blocks);
}

void pack_weights(const Layer& layer, const float* weight, std::uint16_t* packed) {
  const ConvGeometry& g = layer.geometry;
  const std::int64_t window = std::int64_t{g.kernel_height} * layer.row_taps, k = g.group_in_channels() * window;
  const int filters = layer.engine->filters;
  const auto pack_block = [&](std::int64_t index) {
    const std::int64_t group = index / layer.filter_blocks, block = index % layer.filter_blocks;
    const auto there = static_cast<int>(std::min<std::int64_t>(filters, g.group_out_channels() - block * filters));
    const float* const first_filter = weight + (group * g.group_out_channels() + block * filters) * k;
    std::uint16_t* out = packed + index * layer.block_weights();
    std::fill_n(out, layer.block_weights(), std::uint16_t{0});
    for (int step = 0; step < layer.steps(); ++step) {
      const int tap = layer.tap_of(step), first = layer.first_channel(layer.block_of(step));
      // Where the last step overlaps the one before, half of a weight is in each: exact, and infinity stays what it is.
      const int twice_from = layer.first_channel(layer.blocks - 1), twice_to = (layer.blocks - 1) * step_channels;
      const int pairs = step < layer.whole_steps() ? 16 : layer.last_pairs;
      for (int i = 0; i < std::min(2 * pairs, layer.channels - first); ++i) {
        const int channel = first + i;
        const std::int64_t c = layer.folded > 0 ? channel % g.in_channels : channel;
        const std::int64_t place = layer.folded > 0
                                       ? std::int64_t{tap} * g.kernel_width + channel / g.in_channels
                                       : tap / g.kernel_width * layer.row_taps + layer.first_tap + tap % g.kernel_width;
        const float* from = first_filter + c * window + place;
        std::uint16_t* to = out + std::int64_t{i / 2} * 2 * filters + i % 2;
        const float part = channel >= twice_from && channel < twice_to ? 0.5f : 1.0f;
        for (int f = 0; f < there; ++f, from += k, to += 2) {
          *to = to_bfloat16(part * to_float(to_bfloat16(*from))).bits;
        }
      }
      out += std::int64_t{pairs} * 2 * filters;
    }
  };
  const auto count = static_cast<std::size_t>(g.groups * std::int64_t{layer.filter_blocks});
  const auto piece = static_cast<std::size_t>(1 + (1 << 20) / layer.block_weights());
  detail::in_parallel(count, piece, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) pack_block(static_cast<std::int64_t>(i));
  });
}

void pack_bias(const Layer& layer, const float* bias, float* packed) {
  const int filters = layer.geometry.group_out_channels(), row = layer.filter_blocks * layer.engine->filters;
  for (int group = 0; group < layer.geometry.groups; ++group) {
    for (int f = 0; f < row; ++f, ++packed) {
      *packed = f < filters && bias != nullptr ? bias[std::int64_t{group} * filters + f] : 0.0f;
    }
  }
}

}  // namespace lamina::cpu::bf16
