// The register-blocked convolution around its kernel: packing, the division of work, padded copies of input rows.

#include "lamina/cpu/conv2d/blocked.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "lamina/base/math.h"

namespace lamina::cpu {
namespace {

using detail::ceil_div;
using detail::round_up;

/// Floats in a cache line: buffers start on one.
constexpr std::int64_t line = 16;
/// Bytes of a thread's sums, half of a 48 KB L1: a chunk of weights and its input rows have the rest.
constexpr std::int64_t sums_bytes = 24 << 10;
/// Bytes of a thread's padded copy of input rows, unless a single output row needs more: half of a 1 MB L2.
constexpr std::int64_t copy_bytes = 512 << 10;

/// Blocks of filters of a group: wide ones, then narrow ones for what is left.
struct Blocks {
  int wide, narrow;      // how many
  int wide_size, lanes;  // filters of each
  int count() const { return wide + narrow; }
  int first_filter(int block) const { return std::min(block, wide) * wide_size + std::max(0, block - wide) * lanes; }
};

Blocks blocks_of(const ConvGeometry& g, const BlockedKernel& kernel) {
  const int size = kernel.vectors * kernel.lanes;
  const int wide = g.group_out_channels() / size;
  return {wide, ceil_div(g.group_out_channels() - wide * size, kernel.lanes), size, kernel.lanes};
}

/// Part `index` of [0, count) split into `n` parts as equal as can be.
int part_begin(int count, int n, int index) { return static_cast<int>(std::int64_t{count} * index / n); }

/// How the work is divided: a task is a band of output rows and a part of the filter blocks of one group and image.
struct Division {
  int bands = 1;         // of [0, OH)
  int filter_parts = 1;  // of the blocks
  int sum_rows = 1;      // output rows whose sums are kept at a time
  int input_rows = 0;    // most rows of the image that a task copies; 0: it reads the image itself
  std::int64_t row_pitch = 0;
  std::int64_t copy = 0, sums = 0;  // floats of a thread's workspace
};

/// Image rows that `rows` output rows read.
std::int64_t rows_read(const ConvGeometry& g, int rows) {
  const std::int64_t window = std::int64_t{rows - 1} * g.stride_height + (g.kernel_height - 1) * g.dilation_height + 1;
  return std::min<std::int64_t>(window, g.in_height);
}

/// Without padding left and right, the image's own rows serve.
bool copies(const ConvGeometry& g) { return g.padding_width > 0; }

/// The most rows of a band below `rows` that make more bands; 0 after 1. Some 2 * sqrt(OH) of them, so that the tallest
/// image is divided at once.
int fewer_rows(int out_height, int rows) {
  return rows == 1 ? 0 : ceil_div(out_height, ceil_div(out_height, rows - 1));
}

Division divide(const ConvGeometry& g, const BlockedKernel& kernel, int threads) {
  const Blocks blocks = blocks_of(g, kernel);
  Division best;
  best.row_pitch =
      round_up(std::int64_t{g.out_width - 1} * g.stride_width + (g.kernel_width - 1) * g.dilation_width + 1, line);
  // In clock cycles, two multiply-adds in each: the aim is only to weigh what every task does again against idle
  // threads. Copies and weights come from memory, at rates that docs/inside/cpu.md fits to measured divisions.
  const double row_cost = 0.5 * static_cast<double>(g.reduction()) * g.out_width;
  const double copy_cost = copies(g) ? g.group_in_channels() * (8.0 + 1.2 * static_cast<double>(best.row_pitch)) : 0.0;
  const double weight_cost = 0.16 * static_cast<double>(g.reduction()) * kernel.lanes;
  constexpr double task_cost = 4000;
  double least = std::numeric_limits<double>::max();
  for (int rows = g.out_height; rows >= 1; rows = fewer_rows(g.out_height, rows)) {
    const int bands = ceil_div(g.out_height, rows);
    const std::int64_t copy =
        copies(g) ? round_up(g.group_in_channels() * rows_read(g, rows) * best.row_pitch, line) : 0;
    if (copy * static_cast<std::int64_t>(sizeof(float)) > copy_bytes && rows > 1) continue;
    for (int filter_parts = 1; filter_parts <= blocks.count(); ++filter_parts) {
      const int max_blocks = ceil_div(blocks.count(), filter_parts);
      const double task = (rows * row_cost + weight_cost) * max_blocks * kernel.vectors +
                          copy_cost * static_cast<double>(rows_read(g, rows)) + task_cost;
      const auto tasks = g.batch * g.groups * bands * filter_parts;
      // The second term: threads rarely start together or run equally fast, so a long last task is a risk.
      const double cost =
          task * static_cast<double>(ceil_div<std::int64_t>(tasks, threads)) + (threads > 1 ? task / 32 : 0);
      if (cost < least) {
        least = cost;
        best.bands = bands;
        best.filter_parts = filter_parts;
        best.copy = copy;
      }
    }
  }
  const int rows = ceil_div(g.out_height, best.bands);
  const std::int64_t row_sums = std::int64_t{g.out_width} * blocks.wide_size;
  best.sum_rows = static_cast<int>(
      std::clamp<std::int64_t>(sums_bytes / (row_sums * static_cast<std::int64_t>(sizeof(float))), 1, rows));
  best.input_rows = copies(g) ? static_cast<int>(rows_read(g, rows)) : 0;
  best.sums = round_up(best.sum_rows * row_sums, line);
  return best;
}

/// Writes rows [first, last) of a group's channels between the zeros that pad them left and right.
void copy_rows(const ConvGeometry& g, const float* image, int first, int last, std::int64_t pitch, float* out) {
  const std::int64_t width = std::clamp<std::int64_t>(pitch - g.padding_width, 0, g.in_width);
  const std::int64_t left = std::min<std::int64_t>(g.padding_width, pitch);
  for (int c = 0; c < g.group_in_channels(); ++c) {
    const float* row = image + c * g.in_pixels() + std::int64_t{first} * g.in_width;
    for (int ih = first; ih < last; ++ih, row += g.in_width, out += pitch) {
      std::fill(out, out + left, 0.0f);
      std::memcpy(out + left, row, static_cast<std::size_t>(width) * sizeof(float));
      std::fill(out + left + width, out + pitch, 0.0f);
    }
  }
}

}  // namespace

std::int64_t conv2d_blocked_packed_size(const ConvGeometry& g, const BlockedKernel& kernel) {
  const Blocks blocks = blocks_of(g, kernel);
  return g.groups * (1 + g.reduction()) * blocks.first_filter(blocks.count());
}

void conv2d_blocked_pack(const ConvGeometry& g, const BlockedKernel& kernel, const float* weight, const float* bias,
                         float* packed) {
  const Blocks blocks = blocks_of(g, kernel);
  const std::int64_t k = g.reduction();
  std::fill(packed, packed + conv2d_blocked_packed_size(g, kernel), 0.0f);
  for (int group = 0; group < g.groups; ++group) {
    for (int b = 0; b < blocks.count(); ++b) {
      const int size = b < blocks.wide ? blocks.wide_size : blocks.lanes;
      const int first = blocks.first_filter(b);
      const int filters = std::min(size, g.group_out_channels() - first);
      for (int f = 0; f < filters; ++f) {
        const std::int64_t oc = std::int64_t{group} * g.group_out_channels() + first + f;
        if (bias != nullptr) packed[f] = bias[oc];
        for (std::int64_t i = 0; i < k; ++i) packed[(1 + i) * size + f] = weight[oc * k + i];
      }
      packed += (1 + k) * size;
    }
  }
}

namespace {

/// `epilogue`: of channels-last output; null: nchw.
void run(const ConvGeometry& g, const BlockedKernel& kernel, const Conv2dPointers& p, const RowEpilogue* epilogue,
         ThreadPool& pool, float* workspace) {
  const Division division = divide(g, kernel, pool.threads());
  const Blocks blocks = blocks_of(g, kernel);
  const std::int64_t group_packed = (1 + g.reduction()) * blocks.first_filter(blocks.count());
  pool.parallel_for(g.batch * g.groups * division.bands * division.filter_parts, [&](std::int64_t index, int worker) {
    const auto filter_part = static_cast<int>(index % division.filter_parts);
    index /= division.filter_parts;
    const auto band = static_cast<int>(index % division.bands);
    index /= division.bands;
    const auto group = static_cast<int>(index % g.groups);
    const std::int64_t n = index / g.groups;
    const int first_row = part_begin(g.out_height, division.bands, band);
    const int last_row = part_begin(g.out_height, division.bands, band + 1);
    float* const buffer = workspace + worker * (division.copy + division.sums);
    const float* const image =
        p.input + (n * g.in_channels + std::int64_t{group} * g.group_in_channels()) * g.in_pixels();

    BlockedJob job;
    job.geometry = &g;
    job.relu = p.relu;
    job.channels_last = epilogue != nullptr;
    job.finish = epilogue;
    job.sums = buffer + division.copy;
    if (copies(g)) {
      const int top = first_row * g.stride_height - g.padding_height;
      const int bottom =
          (last_row - 1) * g.stride_height - g.padding_height + (g.kernel_height - 1) * g.dilation_height;
      job.input_row = std::clamp(top, 0, g.in_height);
      const int end = std::clamp(bottom + 1, job.input_row, g.in_height);
      copy_rows(g, image, job.input_row, end, division.row_pitch, buffer);
      job.input = buffer;
      job.row_pitch = division.row_pitch;
      job.channel_pitch = (end - job.input_row) * division.row_pitch;
    } else {
      job.input = image;
      job.row_pitch = g.in_width;
      job.channel_pitch = g.in_pixels();
    }

    const float* const packed = p.weight + group * group_packed;
    const auto packed_block = [&](int block) { return packed + (1 + g.reduction()) * blocks.first_filter(block); };
    const int first_block = part_begin(blocks.count(), division.filter_parts, filter_part);
    const int last_block = part_begin(blocks.count(), division.filter_parts, filter_part + 1);
    const int stretches = ceil_div(last_row - first_row, division.sum_rows);
    for (int s = 0; s < stretches; ++s) {
      job.first_row = first_row + part_begin(last_row - first_row, stretches, s);
      job.last_row = first_row + part_begin(last_row - first_row, stretches, s + 1);
      for (int b = first_block; b < last_block; ++b) {
        const int filter = blocks.first_filter(b);
        job.packed = packed_block(b);
        job.next_packed = packed_block(b + 1 < last_block ? b + 1 : first_block);
        job.filters = std::min(b < blocks.wide ? blocks.wide_size : blocks.lanes, g.group_out_channels() - filter);
        const std::int64_t channel = std::int64_t{group} * g.group_out_channels() + filter;
        job.output =
            p.output + n * g.out_channels * g.out_pixels() + channel * (job.channels_last ? 1 : g.out_pixels());
        (b < blocks.wide ? kernel.wide : kernel.narrow)(job);
      }
    }
  });
}

}  // namespace

void conv2d_blocked(const ConvGeometry& g, const BlockedKernel& kernel, const Conv2dPointers& p, ThreadPool& pool,
                    float* workspace) {
  run(g, kernel, p, nullptr, pool, workspace);
}

void conv2d_blocked_to_channels_last(const ConvGeometry& g, const BlockedKernel& kernel, const Conv2dPointers& p,
                                     const RowEpilogue& epilogue, ThreadPool& pool, float* workspace) {
  run(g, kernel, p, &epilogue, pool, workspace);
}

std::size_t conv2d_blocked_workspace(const ConvGeometry& g, const BlockedKernel& kernel, int threads) {
  const Division division = divide(g, kernel, threads);
  return static_cast<std::size_t>((division.copy + division.sums) * threads) * sizeof(float);
}

}  // namespace lamina::cpu
