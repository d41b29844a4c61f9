#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "lamina/graph/graph.h"
#include "lamina/layers/conv2d.h"

/// What the quantiser's tests make of random numbers.
namespace lamina::test {

inline Tensor drawn(Shape shape, unsigned seed, float size = 1) {
  Tensor result(shape);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, size);
  for (float& value : result.values<float>()) value = normal(random);
  return result;
}

inline std::vector<Tensor> samples(int count, Shape shape = {1, 3, 12, 12}) {
  std::vector<Tensor> result;
  for (int i = 0; i < count; ++i) result.push_back(drawn(shape, 100 + static_cast<unsigned>(i)));
  return result;
}

inline Conv2d conv(Conv2dOptions options, unsigned seed) {
  Conv2d result(options);
  const float of = static_cast<float>(options.in / options.groups * options.kernel.height * options.kernel.width);
  result.set_weight(drawn(result.weight().defined() ? result.weight().shape() : result.parameters()[0].shape, seed,
                          1.4f / std::sqrt(of)));
  result.set_bias(drawn({options.out}, seed + 1, 0.1f));
  return result;
}

inline double distance(const Graph& a, const Graph& b, const Tensor& x) {
  const Tensor ya = a.compile().run(x).clone(), yb = b.compile().run(x).clone();
  double off = 0, all = 0;
  for (std::size_t i = 0; i < ya.values<float>().size(); ++i) {
    const double p = static_cast<double>(ya.values<float>()[i]), q = static_cast<double>(yb.values<float>()[i]);
    off += (p - q) * (p - q), all += q * q;
  }
  return std::sqrt(off / all);
}

}  // namespace lamina::test
