#pragma once

#include <random>

#include "lamina/images/preprocess.h"
#include "lamina/layers/pool2d.h"
#include "support/networks.h"

namespace lamina::test {

inline Tensor random_photos(const Shape& shape, unsigned seed) {  // [N, H, W, 3]
  Tensor photos(shape, DType::u8);
  std::mt19937 random(seed);
  for (std::uint8_t& level : photos.values<std::uint8_t>()) level = static_cast<std::uint8_t>(random());
  return photos;
}

/// Normalisations of each kind: torchvision's, Caffe's, and one whose channels all differ.
inline std::vector<Preprocess> normalizations() {
  return {torchvision_imagenet(),
          caffe_imagenet(),
          {.mean = {0.1f, -0.7f, 30}, .std = {-2, 0.3f, 1e-3f}, .divisor = 100, .order = ChannelOrder::bgr}};
}

/// What the numbers are to be, by the formula: f32 [N, 3, H, W].
inline Tensor normalized(const Tensor& photos, const Preprocess& settings) {
  const Shape& shape = photos.shape();
  Tensor result({shape[0], 3, shape[1], shape[2]});
  const auto pixels = static_cast<std::size_t>(shape[1] * shape[2]);
  for (std::size_t i = 0; i < static_cast<std::size_t>(photos.numel()); ++i) {
    const std::size_t colour = i % 3, pixel = i / 3 % pixels, image = i / 3 / pixels;
    const std::size_t channel = settings.order == ChannelOrder::bgr ? 2 - colour : colour;
    volatile float value = static_cast<float>(photos.values<std::uint8_t>()[i]) / settings.divisor;
    value = value - settings.mean[colour];
    result.values<float>()[(image * 3 + channel) * pixels + pixel] = value / settings.std[colour];
  }
  return result;
}

/// A picture and a vector in; the picture's features, the picture itself and the vector out.
inline Graph two_inputs() {
  Graph g;
  const Value x = g.input("picture", {batch, 3, 9, 7});
  const Value v = g.input("vector", {batch, 5});
  const Value c = g.add("conv", Conv2d({.in = 3, .out = 17, .kernel = 3, .stride = 2}), x);
  g.output(g.add("flat", Flatten(), g.add("relu", ReLU(), c)));
  g.output(g.add("pool", MaxPool2d({.kernel = 2}), x));
  g.output(x);
  g.output(g.add("same", ReLU(), v));
  randomize(g);
  return g;
}

}  // namespace lamina::test
