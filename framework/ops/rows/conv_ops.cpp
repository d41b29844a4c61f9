// Convolutions over one, two and three dimensions by the layer for two.

#include <algorithm>

#include "lamina/layers/conv2d.h"
#include "lamina/ops/expansion.h"
#include "lamina/ops/parts.h"
#include "lamina/ops/rows/convolve.h"
#include "lamina/ops/rows/quantized.h"
#include "lamina/ops/rows/transposed.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

EightBitWeights with_shape(EightBitWeights eight, const Shape& shape) {
  if (eight.defined()) eight.weight = eight.weight.view(shape);
  return eight;
}

/// Both sides alike, or as good as: what the layer's own padding does.
bool is_symmetric(const Window& w) { return window_count(w, w.begin, w.begin, false) == w.out; }

int convolve_images(Expansion& e, int x, const Tensor& weight, const Tensor& bias, std::vector<Window> windows,
                    int groups, const EightBitWeights& eight, const Reading& reading) {
  std::vector<Picks> padded;
  for (std::size_t d = 0; d < windows.size(); ++d) {
    Window& w = windows[d];
    if (is_symmetric(w)) continue;
    padded.push_back(places_of(e, static_cast<int>(d) + 2, -w.begin, w.in + w.begin + w.end, w.in));
    w.in += w.begin + w.end;
    w.begin = w.end = 0;
  }
  if (!padded.empty()) x = pick(e, x, padded, reading.padding);
  const Window &h = windows[0], &w = windows[1];
  const auto size = [&e](std::int64_t height, std::int64_t width) {
    return Size2d(to_int(e, height), to_int(e, width));
  };
  Conv2d conv({.in = to_int(e, e.shape(x)[1]),
               .out = to_int(e, weight.shape()[0]),
               .kernel = size(h.kernel, w.kernel),
               .stride = size(h.stride, w.stride),
               .padding = size(h.begin, w.begin),
               .dilation = size(h.dilation, w.dilation),
               .groups = groups,
               .bias = bias.defined()});
  conv.set_weight(weight);
  if (bias.defined()) conv.set_bias(bias);
  conv.set_eight_bits(with_shape(eight, weight.shape()));
  return e.add(std::move(conv), {reading.as_floats ? reading.as_floats(x) : x});
}

/// The positions in depth that one output sees become channels of a picture.
int convolve_volumes(Expansion& e, int x, const Tensor& weight, const Tensor& bias, const std::vector<Window>& windows,
                     int groups, const EightBitWeights& eight, const Reading& reading) {
  const Window& depth = windows[0];
  if (depth.begin > 0 || depth.end > 0)
    x = pick(e, x, {places_of(e, 2, -depth.begin, depth.in + depth.begin + depth.end, depth.in)}, reading.padding);
  const Shape from = e.shape(x), filter = weight.shape();
  const std::int64_t pixels = count_of(from, 3, 5);
  const Shape slices = {from[0], depth.out, from[1], depth.kernel, pixels};
  (void)slices.numel();  // throws Error if there are more than can be counted
  const MoveProblem unfold = {.axes = {{.extent = slices[0], .stride = from[1] * from[2] * pixels},
                                       {.extent = slices[1], .stride = std::min(depth.stride, from[2]) * pixels},
                                       {.extent = slices[2], .stride = from[2] * pixels},
                                       {.extent = slices[3], .stride = std::min(depth.dilation, from[2]) * pixels},
                                       {.extent = slices[4], .stride = 1}}};
  const int images = e.move(x, unfold, {from[0] * depth.out, from[1] * depth.kernel, from[3], from[4]});
  const Tensor flat = weight.view({filter[0], filter[1] * filter[2], filter[3], filter[4]});
  const int maps = convolve_images(e, images, flat, bias, {windows[1], windows[2]}, groups, eight, reading);
  const Shape to = e.shape(maps);
  const int volumes = e.reshape(maps, {from[0], depth.out, to[1], to[2], to[3]});
  return e.permute(volumes, std::vector<int>{0, 2, 1, 3, 4});
}

int conv(Expansion& e) {
  const Tensor weight = known_f32(e, 1);
  const Tensor bias = e.has(2) ? known_f32(e, 2) : Tensor();
  const int x = as_f32(e, e.input(0));
  return e.cast(convolve_as_said(e, x, weight, bias, eight_bits(e, e.input(1), e.has(2) ? e.input(2) : -1)),
                e.dtype(e.input(0)));
}

/// Each channel [N, C, L] by a filter of its own, over what came before and now; the end of that is what came before
/// the next one, the second output.
int causal_conv(Expansion& e) {
  const int x = e.input(0), output = e.attributes().integer("output", 0);
  const Shape from = e.shape(x);
  const Tensor weight = known_f32(e, 1), bias = e.has(2) ? known_f32(e, 2) : Tensor();
  const bool silu = choice<bool>(e, "activation", e.attributes().text("activation", "none"),
                                 {{"none", false}, {"silu", true}, {"swish", true}});
  if (from.rank() != 3 || weight.shape().rank() != 3 || weight.shape()[0] != from[1] || weight.shape()[1] != 1 ||
      weight.shape()[2] < 1)
    e.refuse("weights ", weight.shape(), " do not fit an operand ", from);
  const std::int64_t kernel = weight.shape()[2];
  const Shape before = {from[0], from[1], kernel - 1};
  if (e.has(3) && e.shape(e.input(3)) != before)
    e.refuse("expected a past_state ", before, ", got ", e.shape(e.input(3)));
  const int all =
      e.has(3) ? e.join({e.input(3), x}, 2) : pick(e, x, {places_of(e, 2, 1 - kernel, from[2] + kernel - 1, from[2])});
  if (output == 1) return e.slice(all, 2, from[2], from[2] + kernel - 1);
  if (output != 0) e.refuse("there is no output ", output);
  const Window window = {.in = from[2] + kernel - 1, .kernel = kernel, .out = from[2]};
  int y = convolve(e, as_f32(e, all), weight, bias, {window}, to_int(e, from[1]));
  if (silu) y = e.pointwise(Pointwise::silu, {y});
  return e.cast(y, e.dtype(x));
}

constexpr OpRow conv_rows[] = {
    {"CausalConvWithState", causal_conv}, {"Col2Im", col2im}, {"Conv", conv}, {"ConvTranspose", conv_transpose}};

}  // namespace

int convolve_as_said(Expansion& e, int x, const Tensor& weight, const Tensor& bias, const EightBitWeights& eight,
                     const Reading& reading) {
  const int rank = e.rank(x);
  const Shape shape = e.shape(x);
  const int groups = e.attributes().integer("group", 1);
  if (rank < 3 || rank > 5) e.refuse("expected an operand with 1 to 3 spatial dimensions, got ", shape);
  if (static_cast<int>(weight.shape().rank()) != rank)
    e.refuse("weights ", weight.shape(), " do not fit an operand ", shape);
  if (groups < 1 || shape[1] % groups != 0 || weight.shape()[1] != shape[1] / groups)
    e.refuse("weights ", weight.shape(), " of ", groups, " groups do not fit an operand ", shape);
  const auto filter = weight.shape().extents();
  return convolve(e, x, weight, bias, read_windows(e, shape, {filter.begin() + 2, filter.end()}), groups, eight,
                  reading);
}

int convolve(Expansion& e, int x, const Tensor& weight, const Tensor& bias, std::vector<Window> windows, int groups,
             const EightBitWeights& eight, const Reading& reading) {
  if (windows.size() == 3) return convolve_volumes(e, x, weight, bias, windows, groups, eight, reading);
  if (windows.size() == 2) return convolve_images(e, x, weight, bias, std::move(windows), groups, eight, reading);
  const Shape shape = e.shape(x), filter = weight.shape();
  windows.insert(windows.begin(), Window());
  const int row = convolve_images(e, e.reshape(x, {shape[0], shape[1], 1, shape[2]}),
                                  weight.view({filter[0], filter[1], 1, filter[2]}), bias, std::move(windows), groups,
                                  eight, reading);
  const Shape to = e.shape(row);
  return e.reshape(row, {to[0], to[1], to[3]});
}

std::span<const OpRow> conv_ops() { return conv_rows; }

}  // namespace lamina::detail
