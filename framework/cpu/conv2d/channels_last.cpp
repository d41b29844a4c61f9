// A run of the channels-last convolution around its kernel: tasks, chunks, rows between zeros.

#include "lamina/cpu/conv2d/channels_last.h"

#include <algorithm>
#include <cstring>

#include "lamina/base/math.h"

namespace lamina::cpu {
namespace {

using detail::ceil_div;
using detail::round_up;
using detail::SeenTaps;

/// Part `index` of [0, count) split into `n` parts as equal as can be.
template <class T>
T part_begin(T count, std::int64_t n, std::int64_t index) {
  return static_cast<T>(std::int64_t{count} * index / n);
}

}  // namespace

/// The pixels and blocks of a task, and where it reads.
struct ChannelsLastConv::Task {
  std::int64_t first_image = 0, last_image = 0;
  int first_row = 0, last_row = 0;        // of each image
  int first_column = 0, last_column = 0;  // of each row
  int first_block = 0, last_block = 0;    // of all groups
  // The value at image row `row` (column -padding_width, the group's channel c) is at
  // input + image * image_pitch + row * row_pitch + c.
  const float* input = nullptr;
  std::int64_t image_pitch = 0, row_pitch = 0, pixel = 0;
  int first_channel = 0;
  std::int64_t channels = 0;  // of `input` from pixel to pixel, those that the task reads or those of the image
  int top = 0, bottom = 0;    // rows that were copied

  std::int64_t pixels() const {
    return (last_image - first_image) * (last_row - first_row) * (last_column - first_column);
  }
};

std::size_t ChannelsLastConv::workspace() const {
  return static_cast<std::size_t>((copy_floats_ + sum_floats_) * threads_) * sizeof(float);
}

/// Writes the rows that the task reads, of the channels that it reads, between the zeros that pad them left and right.
void ChannelsLastConv::copy_rows(const Task& t, const ChannelsLastPointers& p, const ApplyKernel& functions,
                                 float* copy) const {
  const ConvGeometry& g = geometry_;
  const std::int64_t left = std::int64_t{g.padding_width} * t.channels;
  for (std::int64_t n = t.first_image; n < t.last_image; ++n) {
    for (int row = t.top; row < t.bottom; ++row, copy += t.row_pitch) {
      const float* from =
          p.input + (n * g.in_pixels() + std::int64_t{row} * g.in_width) * p.input_pitch + t.first_channel;
      std::fill_n(copy, left, 0.0f);
      if (scaled_) {
        const float* const scale = p.scale + n * g.in_channels + t.first_channel;
        for (int column = 0; column < g.in_width; ++column) {
          const float* const pixel = from + column * p.input_pitch;
          apply(functions, Pointwise::mul, StepOperands<float>{pixel, scale, pixel},
                copy + left + std::int64_t{column} * t.channels, t.channels);
        }
      } else if (t.channels == p.input_pitch) {
        std::memcpy(copy + left, from,
                    static_cast<std::size_t>(std::int64_t{g.in_width} * g.in_channels) * sizeof(float));
      } else {
        for (int column = 0; column < g.in_width; ++column) {
          std::copy_n(from + column * p.input_pitch, t.channels, copy + left + std::int64_t{column} * t.channels);
        }
      }
      std::fill(copy + left + std::int64_t{g.in_width} * t.channels, copy + t.row_pitch, 0.0f);
    }
  }
}

/// The stretches, of `most` terms at most, of terms [begin, end) of the reduction, weights `size` filters wide.
int ChannelsLastConv::stretches_of(std::int64_t begin, std::int64_t end, int size, std::int64_t most, const Task& t,
                                   Stretch* out) const {
  const ConvGeometry& g = geometry_;
  const std::int64_t channels = g.group_in_channels();
  // Where a pixel has no channels but these, neighbouring taps of a row are neighbours in memory.
  const bool rows = t.channels == channels && g.dilation_width == 1 && !leaves_taps_out_;
  const std::int64_t together = rows ? channels * g.kernel_width : channels;
  int count = 0;
  for (std::int64_t i = begin; i < end; ++count) {
    const std::int64_t tap = i / channels, row = tap / g.kernel_width, column = tap % g.kernel_width;
    const std::int64_t n = std::min({together - i % together, end - i, most});
    out[count] = {row * g.dilation_height * t.row_pitch + column * g.dilation_width * t.channels + i % channels,
                  (i - begin) * size, static_cast<int>(n), static_cast<int>(row), static_cast<int>(column)};
    i += n;
  }
  return count;
}

/// Those whose taps are inside of the image, for outputs of `seen` columns whose windows begin at row `top`.
int ChannelsLastConv::inside_image(std::span<const Stretch> stretches, int top, const SeenTaps& seen,
                                   Stretch* out) const {
  const auto inside = [&](const Stretch& s) {
    const std::int64_t row = top + std::int64_t{s.kernel_row} * geometry_.dilation_height;
    const bool column = !leaves_taps_out_ || (s.kernel_column >= seen.first_tap && s.kernel_column < seen.last_tap);
    return column && row >= 0 && row < geometry_.in_height;
  };
  return static_cast<int>(std::copy_if(stretches.begin(), stretches.end(), out, inside) - out);
}

void ChannelsLastConv::run_task(const Task& t, const ChannelsLastPointers& p, const RowEpilogue& epilogue,
                                float* sums) const {
  const ConvGeometry& g = geometry_;
  const std::int64_t k = g.reduction(), pixels = t.pixels();
  const std::int64_t biases = round_up<std::int64_t>(padded(), line);
  const std::int64_t rows = (t.last_image - t.first_image) * (t.last_row - t.first_row);
  const auto padded_filter = [&](int block) {
    return std::int64_t{block / blocks_} * padded() + first_filter(block % blocks_);
  };
  for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
    const std::int64_t begin = chunk * chunk_, end = std::min(k, begin + chunk_), terms = end - begin;
    const bool last = chunk + 1 == chunks_;
    const auto weights = [&](std::int64_t from, std::int64_t count, int block) {
      return p.packed + g.groups * biases + (block / blocks_) * k * padded() + from * padded() +
             count * first_filter(block % blocks_);
    };
    for (int b = t.first_block; b < t.last_block; ++b) {
      const int group = b / blocks_, block = b % blocks_, size = block_size(block), filter = first_filter(block);
      const auto* const functions = tiles(block).functions;
      const int row_tiles = tiles_of(block, t.first_column, t.last_column);
      Stretch all[chunk_terms], some[chunk_terms];
      // The first block's tiles fetch the pixels of the tile that follows, if the image is read where it lies and has
      // many: with each stretch a pixel's channels, unless all that it has are next to each other. Other blocks' tiles
      // fetch their share of the weights that follow.
      const bool fetches_pixels = b == t.first_block && !copies() && rows * row_tiles >= 16 && terms >= line;
      const bool in_rows = terms == t.channels;
      const int count = stretches_of(begin, end, size, fetches_pixels && !in_rows ? terms / line : terms, t, all);
      ChannelsLastTile tile;
      tile.pixel = std::int64_t{g.stride_width} * t.channels;
      tile.weights = weights(begin, terms, b);
      const float* next = tile.weights;
      if (b + 1 < t.last_block) {
        next = weights(begin, terms, b + 1);
      } else if (!last) {
        next = weights(end, std::min(k - end, chunk_), t.first_block);
      }
      const std::int64_t share = next == tile.weights ? 0 : ceil_div(terms * size, rows * row_tiles);
      tile.fetch_step = ceil_div(share, terms);
      tile.fetch = next;
      tile.filters = last ? std::min(size, g.group_out_channels() - filter) : size;
      if (last && (epilogue.adds || epilogue.clamps())) tile.finish = &epilogue;
      float* block_sums = sums + (padded_filter(b) - padded_filter(t.first_block)) * pixels;
      const std::int64_t channel = std::int64_t{group} * g.group_out_channels() + filter;
      const float* const input = t.input + std::int64_t{group} * g.group_in_channels() - t.first_channel;
      for (std::int64_t n = t.first_image; n < t.last_image; ++n) {
        for (int oh = t.first_row; oh < t.last_row; ++oh) {
          const int top = oh * g.stride_height - g.padding_height;
          const bool all_rows = top >= 0 && top + (g.kernel_height - 1) * g.dilation_height < g.in_height;
          const float* const row = input + (n - t.first_image) * t.image_pitch + top * t.row_pitch;
          const std::int64_t place = (n * g.out_pixels() + std::int64_t{oh} * g.out_width) * p.output_pitch + channel;
          for (const SeenTaps& seen : columns_) {
            const int first_column = std::max(seen.begin, t.first_column);
            const int columns = std::min(seen.end, t.last_column) - first_column;
            if (columns <= 0) continue;
            tile.stretches = all;
            tile.count = count;
            if (!all_rows || leaves_taps_out_) {
              tile.stretches = some;
              tile.count = inside_image({all, static_cast<std::size_t>(count)}, top, seen, some);
            }
            if (tile.count == 0 && chunk > 0 && !last) {
              block_sums += std::int64_t{columns} * size;
              continue;
            }
            const int tiles = ceil_div(columns, tile_pixels(block));
            for (int i = 0; i < tiles; ++i) {
              const int from = first_column + part_begin(columns, tiles, i);
              const int to = first_column + part_begin(columns, tiles, i + 1);
              tile.input = row + from * tile.pixel;
              if (fetches_pixels && tile.count > 0) {
                tile.fetch = row + to * tile.pixel + tile.stretches[0].input;
                tile.fetch_step = line;
                tile.fetch_skip = in_rows ? 0 : tile.pixel - terms / line * line;
              }
              tile.before = chunk == 0 ? p.packed + group * biases + filter : block_sums;
              tile.next_before = chunk == 0 ? 0 : size;
              tile.output = block_sums;
              tile.pitch = size;
              if (last) {
                tile.output = p.output + place + from * p.output_pitch;
                tile.pitch = p.output_pitch;
                if (epilogue.adds) tile.residual = p.residual + place + from * p.output_pitch;
              }
              functions[to - from - 1](tile);
              tile.fetch += share;
              block_sums += std::int64_t{to - from} * size;
            }
          }
        }
      }
    }
  }
}

/// What the registers do not compute, on the rows just written.
void ChannelsLastConv::finish(const Task& t, const ChannelsLastPointers& p, const RowEpilogue& epilogue) const {
  const ConvGeometry& g = geometry_;
  const auto channel = [&](int block) {
    const int filter = std::min(first_filter(block % blocks_), g.group_out_channels());
    return std::int64_t{block / blocks_} * g.group_out_channels() + filter;
  };
  const std::int64_t first = channel(t.first_block), channels = channel(t.last_block) - first;
  const std::int64_t columns = t.last_column - t.first_column;
  // Pixels of all channels lie side by side.
  const bool whole = channels == p.output_pitch;
  for (std::int64_t n = t.first_image; n < t.last_image; ++n) {
    for (int oh = t.first_row; oh < t.last_row; ++oh) {
      for (std::int64_t column = 0; column < (whole ? 1 : columns); ++column) {
        const std::int64_t pixel = n * g.out_pixels() + std::int64_t{oh} * g.out_width + t.first_column + column;
        const std::int64_t at = pixel * p.output_pitch + first;
        apply_rest(epilogue, p.residual == nullptr ? nullptr : p.residual + at, p.output + at,
                   whole ? columns * channels : channels);
      }
    }
  }
}

void ChannelsLastConv::run(const ChannelsLastPointers& pointers, const RowEpilogue& epilogue, ThreadPool& pool,
                           float* workspace) const {
  const ConvGeometry& g = geometry_;
  ChannelsLastPointers p = pointers;
  if (p.input_pitch == 0) p.input_pitch = g.in_channels;
  if (p.output_pitch == 0) p.output_pitch = g.out_channels;
  const int blocks = g.groups * blocks_;
  const std::int64_t parts = ceil_div(g.batch, images_) * bands_ * spans_;
  pool.parallel_for(parts * block_parts_, [&](std::int64_t index, int worker) {
    Task t;
    t.first_block = part_begin(blocks, block_parts_, index % block_parts_);
    t.last_block = part_begin(blocks, block_parts_, index % block_parts_ + 1);
    index /= block_parts_;
    t.first_column = part_begin(g.out_width, spans_, index % spans_);
    t.last_column = part_begin(g.out_width, spans_, index % spans_ + 1);
    index /= spans_;
    t.first_row = part_begin(g.out_height, bands_, index % bands_);
    t.last_row = part_begin(g.out_height, bands_, index % bands_ + 1);
    index /= bands_;
    t.first_image = part_begin(g.batch, ceil_div(g.batch, images_), index);
    t.last_image = part_begin(g.batch, ceil_div(g.batch, images_), index + 1);
    float* const copy = workspace + worker * (copy_floats_ + sum_floats_);
    if (copies()) {
      const int first_group = t.first_block / blocks_, last_group = (t.last_block - 1) / blocks_ + 1;
      t.first_channel = first_group * g.group_in_channels();
      t.channels = (last_group - first_group) * g.group_in_channels();
      const int top = t.first_row * g.stride_height - g.padding_height;
      const int bottom =
          (t.last_row - 1) * g.stride_height - g.padding_height + (g.kernel_height - 1) * g.dilation_height;
      t.top = std::clamp(top, 0, g.in_height);
      t.bottom = std::clamp(bottom + 1, t.top, g.in_height);
      t.row_pitch = g.padded_width() * t.channels;
      t.image_pitch = (t.bottom - t.top) * t.row_pitch;
      copy_rows(t, p, *epilogue.functions, copy);
      t.input = copy - t.top * t.row_pitch;
    } else {
      t.channels = p.input_pitch;
      t.row_pitch = g.in_width * t.channels;
      t.image_pitch = g.in_height * t.row_pitch;
      t.input = p.input + t.first_image * t.image_pitch - g.padding_width * t.channels;
    }
    run_task(t, p, epilogue, copy + copy_floats_);
    if (!epilogue.rest.empty()) finish(t, p, epilogue);
  });
}

std::size_t ChannelsLastConv::pixels_workspace(std::int64_t pixels) const {
  const std::int64_t sums = chunks_ > 1 ? round_up<std::int64_t>(pixels * padded(), line) : 0;
  return static_cast<std::size_t>(sums) * sizeof(float);
}

void ChannelsLastConv::run_pixels(const ChannelsLastPointers& pointers, const RowEpilogue& epilogue, std::int64_t first,
                                  std::int64_t last, float* workspace) const {
  ChannelsLastPointers p = pointers;
  if (p.input_pitch == 0) p.input_pitch = geometry_.in_channels;
  if (p.output_pitch == 0) p.output_pitch = geometry_.out_channels;
  p.output -= first * p.output_pitch;
  Task t;
  t.last_image = t.last_row = 1;
  t.first_column = static_cast<int>(first), t.last_column = static_cast<int>(last);
  t.last_block = blocks_;
  t.channels = p.input_pitch;
  t.input = p.input;
  run_task(t, p, epilogue, workspace);
  if (!epilogue.rest.empty()) finish(t, p, epilogue);
}

}  // namespace lamina::cpu
