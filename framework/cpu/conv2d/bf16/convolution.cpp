// Convolutions of bf16: rows to blocks, tiles of positions through an engine, sums to the output.

#include "lamina/cpu/conv2d/bf16/convolution.h"

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cpu/conv2d/bf16/copy_band.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cpu::bf16 {
namespace {

using detail::ceil_div;

/// How many steps ahead a block's weights are fetched that nothing has fetched before.
constexpr int fetch_steps = 8;

std::int64_t part_begin(std::int64_t count, std::int64_t n, std::int64_t index) { return count * index / n; }

/// A band of one image and group, in one thread.
class Band {
 public:
  Band(const Layer& layer, const Pointers& p, const RowEpilogue& epilogue, std::byte* workspace)
      : layer_(layer), g_(layer.geometry), engine_(*layer.engine), p_(p), epilogue_(epilogue), copy_(workspace) {
    sums_ = reinterpret_cast<float*>(copy_ + layer.copy_bytes() + layer.row_bytes());
    results_ = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(sums_) + 2 * layer.tile_bytes());
    addends_ = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(results_) + layer.tile_bytes());
    in_registers_ =
        layer.engine->finishes && p.int8_end != nullptr && p.int8_end->plain && layer.pitch == layer.out_row;
  }

  void run(std::int64_t image, int group, int band, int filter_part) {
    const std::int64_t first_row = part_begin(layer_.rows, layer_.bands, band);
    run_rows(image, group, first_row, part_begin(layer_.rows, layer_.bands, band + 1) - first_row,
             part_begin(layer_.filter_blocks, layer_.filter_parts, filter_part),
             part_begin(layer_.filter_blocks, layer_.filter_parts, filter_part + 1));
  }

  /// The output's memory begins with that pixel of all images.
  void set_origin(std::int64_t pixel) { origin_ = pixel; }

  /// Blocks of filters [first, last).
  void run_rows(std::int64_t image, int group, std::int64_t first_row, std::int64_t rows, std::int64_t first,
                std::int64_t last) {
    image_ = image, group_ = group, first_row_ = first_row, rows_ = rows;
    first_step_ = 0, steps_ = layer_.steps();
    if (layer_.apart) {  // only rows of taps that are seen
      const detail::SeenTaps seen = detail::seen_by_rows(g_, first_row, first_row + rows);
      const int row_steps = g_.kernel_width * layer_.blocks;
      first_step_ = seen.first_tap * row_steps, steps_ = seen.taps() * row_steps;
    }
    if (!layer_.direct) copy_band(layer_, p_, {image, group, first_row_, rows_}, copy_);
    // Of the last row, only the outputs.
    const std::int64_t positions = rows_ * layer_.pitch - (layer_.pitch - layer_.row_positions);
    const std::int64_t tiles = ceil_div<std::int64_t>(positions, engine_.positions);
    // Weights that stay in the cache beside a band's input pass again for each tile, whose outputs are then written
    // side by side; others pass once.
    const bool stay = (last - first) * layer_.block_weights() * 2 <= engine_.cache / 4;
    const auto run = [&](std::int64_t tile, std::int64_t block) {
      Fetch fetch = Fetch::nothing;
      if (tile == 0 && (stay || tiles == 1 || block == first)) {
        fetch = Fetch::ahead;
      } else if (!stay && block + 1 < last) {
        fetch = Fetch::share;
      }
      run_tile(block, tile, tiles, positions, fetch);
    };
    if (stay) {
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        for (std::int64_t block = first; block < last; ++block) run(tile, block);
      }
    } else {
      for (std::int64_t block = first; block < last; ++block) {
        for (std::int64_t tile = 0; tile < tiles; ++tile) run(tile, block);
      }
    }
    write_pending();
  }

 private:
  /// What a tile fetches into the L2 cache meanwhile: nothing; its own weights, some steps ahead; its share of the next
  /// block's.
  enum class Fetch { nothing, ahead, share };

  /// Tile `index` of `tiles` times one block of filters.
  void run_tile(std::int64_t block, std::int64_t index, std::int64_t tiles, std::int64_t positions, Fetch fetch) {
    const std::int64_t begin = part_begin(positions, tiles, index), end = part_begin(positions, tiles, index + 1);
    const std::int64_t pixel = layer_.direct ? p_.input_pitch : step_channels;
    const std::byte* const input =
        layer_.direct ? static_cast<const std::byte*>(p_.input) +
                            2 * (first_row_ * p_.input_pitch + std::int64_t{group_} * g_.group_in_channels())
                      : copy_;
    const std::int64_t block_numbers = layer_.block_weights(), step_numbers = std::int64_t{32} * engine_.filters;
    const std::uint16_t* const weights =
        p_.weight + (std::int64_t{group_} * layer_.filter_blocks + block) * block_numbers + first_step_ * step_numbers;
    // The tile before is written while this one is multiplied: sums are read long after they were stored.
    float* const sums = sums_ + (odd_ ? layer_.tile_bytes() / sizeof(float) : 0);
    odd_ = !odd_;
    Tile tile = {.input = input + begin * pixel * (engine_.widened ? 4 : 2),
                 .offsets = layer_.offsets.data() + first_step_,
                 .pixel = pixel,
                 .steps = steps_,
                 .whole_steps = std::min(steps_, layer_.whole_steps()),
                 .pairs = layer_.last_pairs,
                 .weights = weights,
                 .sums = sums,
                 .sums_row = engine_.filters};
    // In lines of 32 numbers.
    const std::int64_t numbers = layer_.apart ? steps_ * step_numbers : block_numbers;
    const std::int64_t lines = numbers / 32, step = ceil_div<std::int64_t>(lines, std::max(steps_, 1));
    if (fetch == Fetch::ahead) {
      tile.fetch = weights + fetch_steps * step * 32;
      tile.fetch_lines = static_cast<int>(step);
    } else if (const std::int64_t share = ceil_div(step, tiles); fetch == Fetch::share && index * share < step) {
      tile.fetch = weights + block_numbers + index * share * tile.steps * 32;
      tile.fetch_lines = static_cast<int>(share);
    }
    Sums codes;
    if (in_registers_) {
      codes = codes_of(block, nullptr, first_row_ * layer_.pitch + begin, end - begin);
      tile.codes = &codes, tile.end = &p_.int8_end->end;
    }
    engine_.multiply(tile, static_cast<int>(end - begin));
    write_pending();
    if (tile.codes == nullptr) pending_ = {block, sums, begin, end};
  }

  void write_pending() {
    if (pending_.sums != nullptr) write_tile(pending_.block, pending_.sums, pending_.begin, pending_.end);
    pending_.sums = nullptr;
  }

  /// The outputs among positions [begin, end): of each row the first row_positions.
  void write_tile(std::int64_t block, const float* sums, std::int64_t begin, std::int64_t end) {
    if (layer_.pitch == layer_.out_row) return write_run(block, sums, first_row_ * layer_.pitch + begin, end - begin);
    std::int64_t row = begin / layer_.pitch, column = begin % layer_.pitch;
    for (std::int64_t q = begin; q < end; ++row, column = 0) {
      const std::int64_t here = std::min(layer_.pitch - column, end - q);
      const std::int64_t count = std::min(layer_.row_positions - column, here);
      if (count > 0)
        write_run(block, sums + (q - begin) * engine_.filters,
                  (first_row_ + row) * layer_.out_row + layer_.first_column + column, count);
      q += here;
    }
  }

  /// Of the first channel of a block.
  std::int64_t place_of(std::int64_t block, std::int64_t pixel) const {
    const std::int64_t channel = std::int64_t{group_} * g_.group_out_channels() + block * engine_.filters;
    return (image_ * layer_.rows * layer_.out_row + pixel - origin_) * p_.output_pitch + channel;
  }
  int channels_of(std::int64_t block) const {
    return static_cast<int>(std::min<std::int64_t>(engine_.filters, g_.group_out_channels() - block * engine_.filters));
  }

  Sums codes_of(std::int64_t block, const float* sums, std::int64_t pixel, std::int64_t count) const {
    const Int8End& end = *p_.int8_end;
    const std::int64_t place = place_of(block, pixel);
    const std::int64_t packed = (std::int64_t{group_} * layer_.filter_blocks + block) * engine_.filters;
    return {.sums = reinterpret_cast<const std::int32_t*>(sums),
            .row = engine_.filters,
            .offset = static_cast<const std::int32_t*>(end.offset.raw()) + packed,
            .factor = static_cast<const float*>(end.factor.raw()) + packed,
            .bias = static_cast<const float*>(end.bias.raw()) + packed,
            .output = static_cast<std::byte*>(p_.output) + place * static_cast<std::int64_t>(size_of(p_.output_type)),
            .pixel = p_.output_pitch,
            .count = count,
            .channels = channels_of(block),
            .two = end.two ? &*end.two : nullptr,
            .added = end.two ? static_cast<const std::byte*>(p_.residual) + place : nullptr};
  }

  /// `count` neighbouring outputs from `pixel` of the image on.
  void write_run(std::int64_t block, const float* sums, std::int64_t pixel, std::int64_t count) {
    if (p_.int8_end != nullptr)
      return p_.int8_end->kernel->finish(p_.int8_end->end, codes_of(block, sums, pixel, count));
    const auto size = static_cast<std::int64_t>(size_of(p_.output_type));
    const std::int64_t place = place_of(block, pixel), filters = engine_.filters;
    const auto* const residual =
        p_.residual == nullptr ? nullptr : static_cast<const std::byte*>(p_.residual) + place * size;
    const Write write = {.sums = sums,
                         .row = filters,
                         .bias = p_.bias + (std::int64_t{group_} * layer_.filter_blocks + block) * filters,
                         .output = static_cast<std::byte*>(p_.output) + place * size,
                         .pixel = p_.output_pitch,
                         .count = count,
                         .filters = channels_of(block)};
    finish(*layer_.moves, epilogue_, write, p_.output_type, residual, results_, addends_);
  }

  const Layer& layer_;
  const ConvGeometry& g_;
  const Engine& engine_;
  const Pointers& p_;
  const RowEpilogue& epilogue_;
  std::byte* copy_;
  float *sums_, *results_, *addends_;
  struct {
    std::int64_t block = 0;
    const float* sums = nullptr;
    std::int64_t begin = 0, end = 0;
  } pending_;  // a tile that was multiplied and is still to be written
  bool odd_ = false;
  std::int64_t image_ = 0, first_row_ = 0, rows_ = 0, origin_ = 0;
  int group_ = 0;
  int first_step_ = 0, steps_ = 0;
  bool in_registers_;  // where all positions are outputs
};

Pointers with_pitches(Pointers pointers, const ConvGeometry& g) {
  if (pointers.input_pitch == 0) pointers.input_pitch = g.in_channels;
  if (pointers.output_pitch == 0) pointers.output_pitch = g.out_channels;
  return pointers;
}

}  // namespace

void convolve_rows(const Layer& layer, const Pointers& given, const RowEpilogue& epilogue, std::int64_t image,
                   std::int64_t first, std::int64_t count, std::byte* workspace) {
  const Pointers pointers = with_pitches(given, layer.geometry);
  const std::int64_t width = layer.geometry.out_width, height = layer.geometry.out_height;
  Band band(layer, pointers, epilogue, workspace);
  band.set_origin((image * height + first) * width);
  if (layer.engine->begin != nullptr) layer.engine->begin(layer.last_pairs);
  for (int group = 0; group < layer.geometry.groups; ++group) {
    if (layer.linear) {
      band.run_rows(0, group, (image * height + first) * width, count * width, 0, layer.filter_blocks);
    } else {
      band.run_rows(image, group, first, count, 0, layer.filter_blocks);
    }
  }
  if (layer.engine->end != nullptr) layer.engine->end();
}

void convolve(const Layer& layer, const Pointers& given, const RowEpilogue& epilogue, ThreadPool& pool,
              std::byte* workspace) {
  const Pointers pointers = with_pitches(given, layer.geometry);
  const auto stride = static_cast<std::int64_t>(layer.workspace(1));
  const std::int64_t tasks = layer.images * layer.geometry.groups * layer.bands * layer.filter_parts;
  pool.parallel_for(tasks, [&](std::int64_t index, int worker) {
    const auto filter_part = static_cast<int>(index % layer.filter_parts);
    index /= layer.filter_parts;
    const auto band = static_cast<int>(index % layer.bands);
    index /= layer.bands;
    if (layer.engine->begin != nullptr) layer.engine->begin(layer.last_pairs);
    Band(layer, pointers, epilogue, workspace + worker * stride)
        .run(index / layer.geometry.groups, static_cast<int>(index % layer.geometry.groups), band, filter_part);
    if (layer.engine->end != nullptr) layer.engine->end();
  });
}

}  // namespace lamina::cpu::bf16
