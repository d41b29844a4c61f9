// Convolutions of bf16: rows to blocks, tiles of positions through an engine, sums to the output.

#include "lamina/cpu/conv2d/bf16/convolution.h"

#include <algorithm>
#include <cstring>

#include "lamina/base/math.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cpu::bf16 {
namespace {

using detail::ceil_div;

/// Bytes of weights that stay in an L2 cache beside a band's input.
constexpr std::int64_t kept_bytes = 256 << 10;
/// How many steps ahead a block's weights are fetched that nothing has fetched before.
constexpr int fetch_steps = 8;

std::int64_t part_begin(std::int64_t count, std::int64_t n, std::int64_t index) { return count * index / n; }

/// A band of one image and group, in one thread.
class Band {
 public:
  Band(const Layer& layer, const Pointers& p, const RowEpilogue& epilogue, std::byte* workspace)
      : layer_(layer), g_(layer.geometry), engine_(*layer.engine), p_(p), epilogue_(epilogue), copy_(workspace) {
    row_ = reinterpret_cast<bfloat16*>(copy_ + layer.copy_bytes());
    sums_ = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(row_) + layer.row_bytes());
    results_ = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(sums_) + 2 * layer.tile_bytes());
    addends_ = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(results_) + layer.tile_bytes());
  }

  void run(std::int64_t image, int group, int band, int filter_part) {
    image_ = image, group_ = group;
    first_row_ = part_begin(layer_.rows, layer_.bands, band);
    rows_ = part_begin(layer_.rows, layer_.bands, band + 1) - first_row_;
    if (!layer_.direct) layer_.linear ? copy_pixels() : copy_rows();
    // Of the last row, only the outputs.
    const std::int64_t positions = rows_ * layer_.pitch - (layer_.pitch - layer_.row_positions);
    const std::int64_t tiles = ceil_div<std::int64_t>(positions, engine_.positions);
    const std::int64_t first = part_begin(layer_.filter_blocks, layer_.filter_parts, filter_part);
    const std::int64_t last = part_begin(layer_.filter_blocks, layer_.filter_parts, filter_part + 1);
    const auto run = [&](std::int64_t tile, std::int64_t block) {
      Fetch fetch = Fetch::nothing;
      if (tiles == 1 || (block == first && tile == 0)) {
        fetch = Fetch::ahead;
      } else if (block + 1 < last) {
        fetch = Fetch::share;
      }
      run_tile(block, tile, tiles, positions, fetch);
    };
    // Weights that stay in the cache pass again for each tile, whose outputs are then written side by side; others pass
    // once.
    if ((last - first) * layer_.block_weights() * 2 <= kept_bytes) {
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

  std::int64_t element_size() const { return engine_.widened ? 4 : 2; }
  /// Block 0 of a phase, a row of it, a position of that.
  std::byte* place(std::int64_t phase, std::int64_t row, std::int64_t position) const {
    return copy_ + ((phase * layer_.phase_rows + row) * layer_.pitch + position) * step_channels * element_size();
  }
  std::int64_t block_elements() const {
    return static_cast<std::int64_t>(layer_.phases.size()) * layer_.phase_rows * layer_.pitch * step_channels;
  }
  void spread(const bfloat16* from, std::int64_t pixel, std::int64_t count, std::byte* to,
              const bfloat16* scale = nullptr) const {
    const Spread s = {.from = from,
                      .pixel = pixel,
                      .count = count,
                      .channels = layer_.channels,
                      .scale = scale,
                      .to = to,
                      .block = block_elements()};
    engine_.widened ? layer_.moves->spread_widened(s) : layer_.moves->spread(s);
  }
  void zero(std::byte* to, std::int64_t count) const {
    if (count <= 0) return;
    for (int b = 0; b < layer_.blocks; ++b, to += block_elements() * element_size()) {
      std::memset(to, 0, static_cast<std::size_t>(count * step_channels * element_size()));
    }
  }

  /// Row `row` of the image as bf16, channels innermost, at `to`.
  void convert_row(int row, bfloat16* to) const {
    const std::int64_t width = g_.in_width, channels = g_.in_channels;
    if (layer_.input.layout == Layout::nhwc) {
      const std::int64_t first = (image_ * g_.in_height + row) * width;
      if (layer_.input.dtype == DType::f32) {
        layer_.moves->narrow(static_cast<const float*>(p_.input) + first * channels, width * channels, to);
        return;
      }
      const auto* from = static_cast<const bfloat16*>(p_.input) + first * p_.input_pitch;
      const bool whole = p_.input_pitch == channels;
      const std::int64_t pieces = whole ? 1 : width, length = whole ? width * channels : channels;
      for (std::int64_t i = 0; i < pieces; ++i) std::copy_n(from + i * p_.input_pitch, length, to + i * length);
      return;
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t first = ((image_ * channels + c) * g_.in_height + row) * width;
      const bfloat16* from = static_cast<const bfloat16*>(p_.input) + first;
      if (layer_.input.dtype == DType::f32) {
        bfloat16* const plane = row_ + layer_.row_bytes() / 2 - width;
        layer_.moves->narrow(static_cast<const float*>(p_.input) + first, width, plane);
        from = plane;
      }
      bfloat16* out = to + c;
      for (std::int64_t w = 0; w < width; ++w, out += channels) *out = from[w];
    }
  }

  void copy_pixels() const {
    const std::int64_t channels = g_.in_channels, first = first_row_ * channels;
    const std::int64_t skipped = std::int64_t{group_} * g_.group_in_channels();
    if (layer_.scaled) {  // by image
      const std::int64_t pixels = g_.in_pixels();
      for (std::int64_t i = 0, next = 0; i < rows_; i = next) {
        const std::int64_t image = (first_row_ + i) / pixels;
        next = std::min(rows_, (image + 1) * pixels - first_row_);
        spread(static_cast<const bfloat16*>(p_.input) + (first_row_ + i) * p_.input_pitch + skipped, p_.input_pitch,
               next - i, place(0, i, 0), p_.scale + image * channels + skipped);
      }
      return;
    }
    if (layer_.input.dtype == DType::bf16) {
      spread(static_cast<const bfloat16*>(p_.input) + first_row_ * p_.input_pitch + skipped, p_.input_pitch, rows_,
             copy_);
      return;
    }
    for (std::int64_t i = 0; i < rows_; i += g_.in_width) {  // as many as the row has room for
      const std::int64_t count = std::min<std::int64_t>(g_.in_width, rows_ - i);
      layer_.moves->narrow(static_cast<const float*>(p_.input) + first + i * channels, count * channels, row_);
      spread(row_ + skipped, channels, count, place(0, i, 0));
    }
  }

  void copy_rows() {
    const std::int64_t extra = (g_.kernel_height - 1) * g_.dilation_height / g_.stride_height;
    for (std::int64_t i = 0; i < rows_ + extra; ++i) {
      int converted = -1;  // the row that row_ holds
      for (std::size_t phase = 0; phase < layer_.phases.size(); ++phase) {
        const auto [row, column] = layer_.phases[phase];
        std::byte* const to = place(static_cast<std::int64_t>(phase), i, 0);
        const std::int64_t ih = (first_row_ + i) * g_.stride_height + row - g_.padding_height;
        if (ih < 0 || ih >= g_.in_height) {
          zero(to, layer_.pitch);
        } else if (layer_.folded) {
          fold_row(static_cast<int>(ih), to);
        } else {
          copy_row(static_cast<int>(ih), column, to, converted);
        }
      }
    }
  }

  /// The columns of one phase, between zeros.
  void copy_row(int row, int phase, std::byte* to, int& converted) {
    const std::int64_t stride = g_.stride_width;
    std::int64_t pixel = g_.in_channels;
    // Column j * stride + start of the image, for j in [begin, end).
    const std::int64_t start = phase - g_.padding_width;
    const std::int64_t begin = std::clamp<std::int64_t>(start < 0 ? ceil_div(-start, stride) : 0, 0, layer_.pitch);
    const std::int64_t end =
        std::clamp<std::int64_t>(start < g_.in_width ? (g_.in_width - 1 - start) / stride + 1 : 0, begin, layer_.pitch);
    const bfloat16* from = row_;
    if (layer_.input == Format{DType::bf16, Layout::nhwc}) {
      pixel = p_.input_pitch;
      from = static_cast<const bfloat16*>(p_.input) + (image_ * g_.in_height + row) * g_.in_width * pixel;
    } else if (converted != row) {
      convert_row(row, row_);
      converted = row;
    }
    const std::int64_t position = step_channels * element_size();
    zero(to, begin);
    if (end > begin) {
      spread(from + (begin * stride + start) * pixel + std::int64_t{group_} * g_.group_in_channels(), stride * pixel,
             end - begin, to + begin * position);
    }
    zero(to + end * position, layer_.pitch - end);
  }

  /// All taps of a row side by side, as channels.
  void fold_row(int row, std::byte* to) {
    const std::int64_t channels = g_.in_channels, left = std::int64_t{g_.padding_width} * channels;
    const std::int64_t room = static_cast<std::int64_t>(layer_.row_bytes() / 2) - g_.in_width;
    const std::int64_t end = left + std::int64_t{g_.in_width} * channels;
    std::fill(row_, row_ + left, bfloat16());
    convert_row(row, row_ + left);
    std::fill(row_ + end, row_ + room, bfloat16());
    spread(row_, g_.stride_width * channels, layer_.pitch, to);
  }

  /// Tile `index` of `tiles` times one block of filters.
  void run_tile(std::int64_t block, std::int64_t index, std::int64_t tiles, std::int64_t positions, Fetch fetch) {
    const std::int64_t begin = part_begin(positions, tiles, index), end = part_begin(positions, tiles, index + 1);
    const std::int64_t pixel = layer_.direct ? p_.input_pitch : step_channels;
    const std::byte* const input =
        layer_.direct ? static_cast<const std::byte*>(p_.input) +
                            2 * (first_row_ * p_.input_pitch + std::int64_t{group_} * g_.group_in_channels())
                      : copy_;
    const std::int64_t numbers = layer_.block_weights();
    const std::uint16_t* const weights = p_.weight + (std::int64_t{group_} * layer_.filter_blocks + block) * numbers;
    // The tile before is written while this one is multiplied: sums are read long after they were stored.
    float* const sums = sums_ + (odd_ ? layer_.tile_bytes() / sizeof(float) : 0);
    odd_ = !odd_;
    Tile tile = {.input = input + begin * pixel * element_size(),
                 .offsets = layer_.offsets.data(),
                 .pixel = pixel,
                 .steps = layer_.steps(),
                 .whole_steps = layer_.whole_steps(),
                 .pairs = layer_.last_pairs,
                 .weights = weights,
                 .sums = sums,
                 .sums_row = engine_.filters};
    // In lines of 32 numbers.
    const std::int64_t lines = numbers / 32, step = ceil_div<std::int64_t>(lines, tile.steps);
    if (fetch == Fetch::ahead) {
      tile.fetch = weights + fetch_steps * step * 32;
      tile.fetch_lines = static_cast<int>(step);
    } else if (const std::int64_t share = ceil_div(step, tiles); fetch == Fetch::share && index * share < step) {
      tile.fetch = weights + numbers + index * share * tile.steps * 32;
      tile.fetch_lines = static_cast<int>(share);
    }
    engine_.multiply(tile, static_cast<int>(end - begin));
    write_pending();
    pending_ = {block, sums, begin, end};
  }

  void write_pending() {
    if (pending_.sums != nullptr) write_tile(pending_.block, pending_.sums, pending_.begin, pending_.end);
    pending_.sums = nullptr;
  }

  /// The outputs among positions [begin, end): of each row the first row_positions.
  void write_tile(std::int64_t block, const float* sums, std::int64_t begin, std::int64_t end) {
    if (layer_.pitch == layer_.row_positions)
      return write_run(block, sums, first_row_ * layer_.pitch + begin, end - begin);
    std::int64_t row = begin / layer_.pitch, column = begin % layer_.pitch;
    for (std::int64_t q = begin; q < end; ++row, column = 0) {
      const std::int64_t here = std::min(layer_.pitch - column, end - q);
      const std::int64_t count = std::min(layer_.row_positions - column, here);
      if (count > 0)
        write_run(block, sums + (q - begin) * engine_.filters, (first_row_ + row) * layer_.row_positions + column,
                  count);
      q += here;
    }
  }

  /// `count` neighbouring outputs from `pixel` of the image on.
  void write_run(std::int64_t block, const float* sums, std::int64_t pixel, std::int64_t count) {
    const std::int64_t size = p_.output_type == DType::bf16 ? 2 : 4, filters = engine_.filters;
    const std::int64_t channel = std::int64_t{group_} * g_.group_out_channels() + block * filters;
    const std::int64_t place = (image_ * layer_.rows * layer_.row_positions + pixel) * p_.output_pitch + channel;
    const Write write = {.sums = sums,
                         .row = filters,
                         .bias = p_.bias + (std::int64_t{group_} * layer_.filter_blocks + block) * filters,
                         .output = static_cast<std::byte*>(p_.output) + place * size,
                         .pixel = p_.output_pitch,
                         .count = count,
                         .filters = static_cast<int>(std::min(filters, g_.group_out_channels() - block * filters))};
    const std::byte* residual = static_cast<const std::byte*>(p_.residual);
    if (residual != nullptr) residual += place * size;
    finish(*layer_.moves, epilogue_, write, p_.output_type, residual, results_, addends_);
  }

  const Layer& layer_;
  const ConvGeometry& g_;
  const Engine& engine_;
  const Pointers& p_;
  const RowEpilogue& epilogue_;
  std::byte* copy_;
  bfloat16* row_;
  float *sums_, *results_, *addends_;
  struct {
    std::int64_t block = 0;
    const float* sums = nullptr;
    std::int64_t begin = 0, end = 0;
  } pending_;  // a tile that was multiplied and is still to be written
  bool odd_ = false;
  std::int64_t image_ = 0, first_row_ = 0, rows_ = 0;
  int group_ = 0;
};

}  // namespace

void convolve(const Layer& layer, const Pointers& given, const RowEpilogue& epilogue, ThreadPool& pool,
              std::byte* workspace) {
  Pointers pointers = given;
  if (pointers.input_pitch == 0) pointers.input_pitch = layer.geometry.in_channels;
  if (pointers.output_pitch == 0) pointers.output_pitch = layer.geometry.out_channels;
  const auto stride = static_cast<std::int64_t>(layer.workspace(1));
  const std::int64_t tasks = layer.images * layer.geometry.groups * layer.bands * layer.filter_parts;
  pool.parallel_for(tasks, [&](std::int64_t index, int worker) {
    const auto filter_part = static_cast<int>(index % layer.filter_parts);
    index /= layer.filter_parts;
    const auto band = static_cast<int>(index % layer.bands);
    index /= layer.bands;
    if (layer.engine->begin != nullptr) layer.engine->begin();
    Band(layer, pointers, epilogue, workspace + worker * stride)
        .run(index / layer.geometry.groups, static_cast<int>(index % layer.geometry.groups), band, filter_part);
    if (layer.engine->end != nullptr) layer.engine->end();
  });
}

}  // namespace lamina::cpu::bf16
