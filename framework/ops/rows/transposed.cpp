// Transposed convolutions: each input element spreads its weights over the output, `stride` further than the one
// before. Three ways to the same sums by ordinary convolutions:
//   stride 1: the weights backwards
//   a stride that divides the kernel: each of stride positions (phases) sees its own kernel / stride weights, so one
//     convolution makes all phases as channels, and a Move puts them beside each other
//   else: zeros between the elements, then as for stride 1
// In all three weights meet zeros that are no element, and Inf * 0 is NaN. Where a weight is not finite, each tap is
// therefore a channel of a convolution of 1x1, and Col2Im adds them up where they fall.

#include "lamina/ops/rows/transposed.h"

#include <algorithm>
#include <cmath>

#include "lamina/ops/parts.h"
#include "lamina/ops/rows/convolve.h"

namespace lamina::detail {
namespace {

/// output o of a dimension is the sum over o + begin = i * stride + t * dilation.
std::vector<Window> transposed_windows(Expansion& e, const Shape& x, const Shape& filter) {
  const std::size_t count = x.rank() - 2;
  const std::vector<std::int64_t> kernel(filter.begin() + 2, filter.end());
  std::vector<std::int64_t> padding = spatial_numbers(e, "output_padding", count, 0, 0);
  const std::vector<std::int64_t> wanted = e.attributes().integers("output_shape", {});
  const std::string automatic = read_auto_pad(e);
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  const std::vector<std::int64_t> pads = spatial_numbers(e, "pads", 2 * count, 0, 0);
  if (e.attributes().integers("kernel_shape", kernel) != kernel) e.refuse("kernel_shape is not that of the weights");
  if (!wanted.empty() && wanted.size() != count && wanted.size() != count + 2)
    e.refuse("expected ", count, " numbers as output_shape, got ", wanted.size());

  const auto strides = spatial_numbers(e, "strides", count, 1, 1);
  const auto dilations = spatial_numbers(e, "dilations", count, 1, 1);
  std::vector<Window> windows;
  for (std::size_t d = 0; d < count; ++d) {
    Window w = {.in = x.extents()[d + 2], .kernel = kernel[d], .stride = strides[d], .dilation = dilations[d]};
    if (w.kernel < 1 || w.kernel > largest_window) e.refuse("cannot have a kernel of ", w.kernel);
    if (w.in < 1 || w.in > longest_list) e.refuse("cannot be of an operand ", x);
    const std::int64_t all = w.stride * (w.in - 1) + padding[d] + w.extent();
    if (!wanted.empty() || same) {
      w.out = wanted.empty() ? w.in * w.stride : wanted[wanted.size() - count + d];
      if (w.out < 1 || w.out > longest_list) e.refuse("cannot have an output_shape of ", w.out);
      const std::int64_t total = std::max<std::int64_t>(all - w.out, 0);
      w.begin = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    } else {
      const bool valid = automatic == "VALID";
      w.begin = valid ? 0 : pads[d];
      w.out = all - w.begin - (valid ? 0 : pads[d + count]);
      if (w.out < 1 || w.out > longest_list) e.refuse("its output would have an extent of ", w.out);
    }
    windows.push_back(w);
  }
  return windows;
}

/// Weights [C, O / groups, K...] of a transposed convolution as those [O * S..., C / groups, K / S...] of one whose
/// outputs are the phases of each channel: tap t is tap K / S - 1 - t / S of phase t % S.
Tensor phase_weights(const Tensor& weight, const std::vector<std::int64_t>& phases, int groups) {
  const Shape from = weight.shape();
  const std::size_t count = phases.size();
  const std::int64_t in = from[0] / groups, out = from[1];
  std::int64_t all_phases = 1, taps = 1;
  std::vector<std::int64_t> extents = {0, in};
  for (std::size_t d = 0; d < count; ++d) {
    all_phases *= phases[d];
    extents.push_back(from.extents()[d + 2] / phases[d]);
    taps *= from.extents()[d + 2];
  }
  const std::int64_t inner = taps / all_phases;
  extents[0] = out * groups * all_phases;
  Tensor result(to_shape(extents));
  const std::span<const float> read = weight.values<float>();
  const std::span<float> written = result.values<float>();
  for (std::int64_t t = 0; t < taps; ++t) {
    std::int64_t rest = t, phase = 0, tap = 0, phase_stride = 1, tap_stride = 1;
    for (std::size_t d = count; d-- > 0;) {
      const std::int64_t at = rest % from.extents()[d + 2];
      rest /= from.extents()[d + 2];
      phase += at % phases[d] * phase_stride;
      tap += (extents[d + 2] - 1 - at / phases[d]) * tap_stride;
      phase_stride *= phases[d];
      tap_stride *= extents[d + 2];
    }
    for (std::int64_t c = 0; c < from[0]; ++c) {
      for (std::int64_t o = 0; o < out; ++o) {
        const std::int64_t channel = (c / in * out + o) * all_phases + phase;
        written[static_cast<std::size_t>((channel * in + c % in) * inner + tap)] =
            read[static_cast<std::size_t>((c * out + o) * taps + t)];
      }
    }
  }
  return result;
}

/// As ordinary windows of stride 1 over an input with zeros between its elements.
int by_spreading(Expansion& e, int x, const Tensor& weight, const Tensor& bias, const std::vector<Window>& windows,
                 int groups) {
  std::vector<Window> ordinary;
  std::vector<Picks> zeros;
  for (std::size_t d = 0; d < windows.size(); ++d) {
    const Window& w = windows[d];
    const std::int64_t begin = w.extent() - 1 - w.begin, length = w.out + w.extent() - 1;
    Window one = {.in = w.in, .kernel = w.kernel, .dilation = w.dilation, .begin = begin, .out = w.out};
    one.end = length - begin - w.in;
    if (w.stride > 1 || begin < 0 || one.end < 0) {
      Picks picks = places_of(e, static_cast<int>(d) + 2, -begin, length, w.stride * (w.in - 1) + 1);
      for (std::int64_t& place : picks.places) place = place >= 0 && place % w.stride == 0 ? place / w.stride : -1;
      zeros.push_back(std::move(picks));
      one.in = length;
      one.begin = one.end = 0;
    }
    ordinary.push_back(one);
  }
  if (!zeros.empty()) x = pick(e, x, zeros);
  const std::vector<std::int64_t> one_phase(windows.size(), 1);
  return convolve(e, x, phase_weights(weight, one_phase, groups), bias, ordinary, groups);
}

/// Every phase as a channel, then output o is element (o + begin) / stride of phase (o + begin) % stride.
int by_phases(Expansion& e, int x, const Tensor& weight, const Tensor& bias, const std::vector<Window>& windows,
              int groups) {
  const std::int64_t channels = weight.shape()[1] * groups;
  std::vector<std::int64_t> phases;
  std::vector<Window> ordinary;
  std::int64_t all_phases = 1;
  for (const Window& w : windows) {
    Window one = {.in = w.in, .kernel = w.kernel / w.stride, .dilation = w.dilation};
    one.begin = one.extent() - 1;
    one.end = std::max<std::int64_t>((w.out - 1 + w.begin) / w.stride + 1 - w.in, 0);
    one.out = one.in + one.end;
    ordinary.push_back(one);
    phases.push_back(w.stride);
    all_phases *= w.stride;
  }
  Tensor biases;
  if (bias.defined()) {
    biases = Tensor({channels * all_phases});
    for (std::int64_t i = 0; i < biases.numel(); ++i)
      biases.values<float>()[static_cast<std::size_t>(i)] =
          bias.values<float>()[static_cast<std::size_t>(i / all_phases)];
  }
  const int maps = convolve(e, x, phase_weights(weight, phases, groups), biases, ordinary, groups);
  const Shape from = e.shape(maps);
  const std::vector<std::int64_t> strides = row_major_strides(from);
  MoveProblem move = {
      .axes = {{.extent = from[0], .stride = strides[0]}, {.extent = channels, .stride = all_phases * strides[1]}}};
  std::vector<std::int64_t> to = {from[0], channels};
  std::int64_t phase_stride = all_phases * strides[1];
  for (std::size_t d = 0; d < windows.size(); ++d) {
    const Window& w = windows[d];
    phase_stride /= w.stride;
    MoveProblem::Axis axis = {.extent = w.out};
    for (std::int64_t o = w.begin; o < w.begin + w.out; ++o)
      axis.offsets.push_back(o % w.stride * phase_stride + o / w.stride * strides[d + 2]);
    move.axes.push_back(std::move(axis));
    to.push_back(w.out);
  }
  return e.move(maps, std::move(move), to_shape(to));
}

/// Sums of what falls on the same place: tap t of element i of dimension d falls on that of windows[d]. From
/// [N, C, kernel..., in...] to [N, C, out...].
int fold(Expansion& e, int x, std::int64_t channels, const std::vector<Window>& windows) {
  std::vector<std::int64_t> from = {e.shape(x)[0], channels}, split = from, to = from;
  for (const Window& w : windows) from.push_back(w.kernel);
  for (const Window& w : windows) from.push_back(w.in);
  const std::vector<std::int64_t> strides = row_major_strides(to_shape(from));
  MoveProblem move = {.axes = {{.extent = from[0], .stride = strides[0]}, {.extent = from[1], .stride = strides[1]}}};
  std::vector<int> summed;
  for (std::size_t d = 0; d < windows.size(); ++d) {
    const Window& w = windows[d];
    if (w.in * w.kernel > longest_list) e.refuse("an extent of ", w.in, " by a kernel of ", w.kernel, " is too large");
    std::vector<std::vector<std::int64_t>> falls(1);  // by how many fell there before: what falls on each place
    std::vector<std::size_t> before(static_cast<std::size_t>(w.out));
    for (std::int64_t i = 0; i < w.in; ++i) {
      for (std::int64_t t = 0; t < w.kernel; ++t) {
        const std::int64_t place = i * w.stride + t * w.dilation - w.begin;
        if (place < 0 || place >= w.out) continue;
        const std::size_t layer = before[static_cast<std::size_t>(place)]++;
        if (layer == falls.size()) falls.emplace_back();
        falls[layer].resize(static_cast<std::size_t>(w.out), -1);
        falls[layer][static_cast<std::size_t>(place)] = t * strides[d + 2] + i * strides[d + 2 + windows.size()];
      }
    }
    falls[0].resize(static_cast<std::size_t>(w.out), -1);
    summed.push_back(static_cast<int>(split.size()));
    split.insert(split.end(), {static_cast<std::int64_t>(falls.size()), w.out});
    to.push_back(w.out);
    MoveProblem::Axis axis = {.extent = split[split.size() - 2] * w.out};
    for (const auto& layer : falls) axis.offsets.insert(axis.offsets.end(), layer.begin(), layer.end());
    move.axes.push_back(std::move(axis));
  }
  (void)to_shape(split).numel();  // throws Error if there are more than can be counted
  return e.reduce(Reduction::sum, e.move(x, std::move(move), to_shape(split)), std::move(summed), false);
}

}  // namespace

int col2im(Expansion& e) {
  const int x = e.input(0);
  const Shape shape = e.shape(x);
  const std::vector<std::int64_t> image = e.integers(1), block = e.integers(2);
  const std::size_t count = image.size();
  if (shape.rank() != 3 || count < 1 || count > 3 || block.size() != count)
    e.refuse("expected an operand [N, C, L], and as many extents, 1 to 3, of the image as of a block, got ", shape,
             ", ", count, " and ", block.size());
  const auto strides = spatial_numbers(e, "strides", count, 1, 1),
             dilations = spatial_numbers(e, "dilations", count, 1, 1);
  const auto pads = spatial_numbers(e, "pads", 2 * count, 0, 0);
  std::vector<Window> windows;
  std::vector<std::int64_t> taps, blocks;
  for (std::size_t d = 0; d < count; ++d) {
    Window w = {.in = image[d], .kernel = block[d], .stride = strides[d], .dilation = dilations[d]};
    if (w.kernel < 1 || w.kernel > largest_window || w.in < 1 || w.in > longest_list)
      e.refuse("cannot have an image of ", w.in, " and a block of ", w.kernel);
    const std::int64_t fit = window_count(w, pads[d], pads[d + count], false);
    w.begin = pads[d], w.out = std::exchange(w.in, fit);
    windows.push_back(w), taps.push_back(w.kernel), blocks.push_back(fit);
  }
  const std::int64_t in_block = to_shape(taps).numel();
  if (std::ranges::min(blocks) < 1 || shape[1] % in_block != 0 || shape[2] != to_shape(blocks).numel())
    e.refuse("an operand ", shape, " is not of ", to_shape(blocks), " blocks ", to_shape(taps));
  return fold(e, x, shape[1] / in_block, windows);
}

int conv_transpose(Expansion& e) {
  const int x = as_f32(e, e.input(0)), rank = e.rank(x);
  const Shape shape = e.shape(x);
  const Tensor weight = known_f32(e, 1), bias = e.has(2) ? known_f32(e, 2) : Tensor();
  const int groups = e.attributes().integer("group", 1);
  if (rank < 3 || rank > 5) e.refuse("expected an operand with 1 to 3 spatial dimensions, got ", shape);
  if (static_cast<int>(weight.shape().rank()) != rank || groups < 1 || shape[1] % groups != 0 ||
      weight.shape()[0] != shape[1] || weight.numel() == 0)
    e.refuse("weights ", weight.shape(), " of ", groups, " groups do not fit an operand ", shape);
  if (bias.defined() && bias.shape() != Shape{weight.shape()[1] * groups})
    e.refuse("expected a bias for ", weight.shape()[1] * groups, " channels, got ", bias.shape());
  const std::vector<Window> windows = transposed_windows(e, shape, weight.shape());
  const auto has_phases = [](const Window& w) {
    return w.stride == 1 || (w.kernel % w.stride == 0 && w.dilation == 1);
  };
  const auto plain = [](const Window& w) { return w.stride == 1; };
  if (!std::ranges::all_of(weight.values<float>(), [](float w) { return std::isfinite(w); })) {
    std::vector<std::int64_t> taps, ones(windows.size() + 1, 1);
    for (const Window& w : windows) taps.push_back(w.kernel);
    std::vector<Window> points;
    for (const Window& w : windows) points.push_back({.in = w.in, .out = w.in});
    const std::int64_t channels = ones[0] = weight.shape()[1] * groups;
    int y = fold(e, convolve(e, x, phase_weights(weight, taps, groups), {}, points, groups), channels, windows);
    if (bias.defined()) y = e.pointwise(Pointwise::add, {y, e.constant_node(bias.view(to_shape(ones)))});
    return e.cast(y, e.dtype(e.input(0)));
  }
  const bool phases = std::ranges::all_of(windows, has_phases) && !std::ranges::all_of(windows, plain);
  const int y = (phases ? by_phases : by_spreading)(e, x, weight, bias, windows, groups);
  return e.cast(y, e.dtype(e.input(0)));
}

}  // namespace lamina::detail
