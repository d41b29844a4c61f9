#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "lamina/layers/concat.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/linear.h"
#include "lamina/layers/local_response_norm.h"
#include "lamina/layers/pool2d.h"
#include "lamina/layers/softmax.h"
#include "lamina/layers/views.h"
#include "lamina/ops/op.h"
#include "support/plans/seeded_network.h"

/// CompileOptions::batch_invariant: an image alone against the same image in every place of a batch.
namespace lamina::test {

/// Every kind of layer that networks of images have, one after the other: few channels, few pixels of many channels,
/// groups, one channel a group, channels that fill no vector, pooling in both kinds, squeeze and excite, a residual
/// sum, a concatenation.
inline Graph every_layer_of_images() {
  Graph g;
  const auto conv = [&](const char* name, Value x, const Conv2dOptions& o) { return g.add(name, Conv2d(o), x); };
  Value x = g.input("input", {batch, 3, 63, 63});
  x = g.add(ReLU(), conv("first", x, {.in = 3, .out = 32, .kernel = 11, .stride = 4, .padding = 2}));
  x = g.add(MaxPool2d({.kernel = 3, .stride = 2}), x);
  const Value narrow = conv("narrow", x, {.in = 32, .out = 7, .kernel = 1});
  x = g.add(ReLU(), conv("dense", x, {.in = 32, .out = 64, .kernel = 3, .padding = 1}));
  x = conv("grouped", x, {.in = 64, .out = 96, .kernel = 3, .padding = 1, .groups = 4});
  x = conv("widened", x, {.in = 96, .out = 96});
  x = conv("depthwise", x, {.in = 96, .out = 96, .kernel = 5, .padding = 2, .groups = 96});
  const Value few = g.add(ReLU(), conv("squeeze", g.add(AdaptiveAvgPool2d(1), x), {.in = 96, .out = 24}));
  const Value factors = g.add(Sigmoid(), conv("excite", few, {.in = 24, .out = 96}));
  x = g.add("excited", Op("Mul"), {x, factors});
  x = g.add(LocalResponseNorm(LocalResponseNormOptions{}), conv("pointwise", x, {.in = 96, .out = 160}));
  const Value deep = conv("deep", x, {.in = 160, .out = 160, .kernel = 3, .padding = 1});
  x = g.add(ReLU(), g.add("sum", Add(), {deep, x}));
  x = g.add("joined", Concat(1), {x, narrow});
  x = conv("odd", x, {.in = 167, .out = 33, .kernel = {5, 3}, .stride = 2, .padding = 2, .dilation = {1, 2}});
  x = g.add(AvgPool2d({.kernel = 2, .stride = 1}), x);
  x = g.add("flat", Flatten(), x);
  const int features = static_cast<int>(g.shapes(1).back().numel());
  x = g.add(ReLU(), g.add("wide", Linear({.in = features, .out = 512}), x));
  x = g.add("unaligned", Linear({.in = 512, .out = 77}), x);
  g.output(x);
  g.output(g.add(Softmax(), g.add("classes", Linear({.in = 77, .out = 16}), x)));
  seed_parameters(g);
  return g;
}

/// What transformers have: rows of an image, norms, attention, products of matrices, and a mean at the end.
inline Graph every_layer_of_tokens() {
  Graph g;
  int constants = 0;
  const auto constant = [&](Tensor value) {
    return g.add("c" + std::to_string(constants++), Constant(std::move(value)), std::initializer_list<Value>{});
  };
  const auto row = [&](float first, float step) {
    std::vector<float> values(64);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + step * static_cast<float>(i);
    return constant(Tensor::from(std::span<const float>(values), {64}));
  };
  const auto whole = [&](const std::vector<std::int64_t>& values) {
    return constant(Tensor::from(std::span<const std::int64_t>(values), {static_cast<std::int64_t>(values.size())}));
  };
  const auto op = [&](const char* name, const char* what, std::vector<Value> inputs, Attributes attributes = {}) {
    return g.add(name, std::make_shared<Op>(what, std::move(attributes)), inputs);
  };
  const Value x = g.input("input", {batch, 40, 64});
  const Value y = op("norm", "LayerNormalization", {x, row(0.5f, 0.03f), row(-1, 0.02f)});
  const auto heads = [&](const char* name, const char* split, const char* turn, std::vector<std::int64_t> order) {
    const Value rows = g.add(name, Linear({.in = 64, .out = 64}), y);
    return op(turn, "Transpose", {op(split, "Reshape", {rows, whole({0, 40, 2, 32})})}, {{"perm", std::move(order)}});
  };
  const Value scores =
      op("scores", "MatMul",
         {heads("q", "q heads", "q turned", {0, 2, 1, 3}), heads("k", "k heads", "k turned", {0, 2, 3, 1})});
  const Value mixed =
      op("mixed", "MatMul", {op("weights", "Softmax", {scores}), heads("v", "v heads", "v turned", {0, 2, 1, 3})});
  Value z =
      op("beside", "Reshape",
         {op("back", "Transpose", {mixed}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}}), whole({0, 40, 64})});
  z = g.add("sum", Add(), {g.add("out", Linear({.in = 64, .out = 64}), z), x});
  const Value products =
      op("products", "MatMul", {z, op("turned", "Transpose", {z}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}})});
  g.output(op("likeness", "Softmax", {products}));
  z = op("mean", "ReduceMean", {z, whole({1})}, {{"keepdims", std::int64_t{0}}});
  g.output(g.add("head", Linear({.in = 64, .out = 30}), z));
  seed_parameters(g);
  return g;
}

/// Images that have nothing to do with each other: some of them ordinary, one with values that are not finite, one that
/// is nearly black, one of very different magnitudes.
inline std::vector<Tensor> unlike_images(Shape shape) {
  shape.set(0, 1);
  std::vector<Tensor> images;
  for (unsigned seed = 0; seed < 5; ++seed) {
    Tensor image(shape);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (float& v : image.values<float>()) v = normal(random);
    const std::span<float> values = image.values<float>();
    for (std::size_t i = seed; i < values.size(); i += 97) {
      if (seed == 2) values[i] = i % 2 == 0 ? std::numeric_limits<float>::infinity() : std::nanf("");
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (seed == 3) values[i] *= 1e-7f;
      if (seed == 4) values[i] *= std::ldexp(1.0f, static_cast<int>(i % 23) - 11);
    }
    images.push_back(std::move(image));
  }
  return images;
}

/// Compiles with batch_invariant for one image and for each of `batches`; every image in every place has the bits that
/// it has alone.
inline void expect_no_bit_depends_on_the_batch(const Graph& graph, CompileOptions options,
                                               std::span<const std::int64_t> batches) {
  options.batch_invariant = true;
  options.batch = 1;
  Plan alone = graph.compile(options);
  EXPECT_NE(alone.summary().find("batch-invariant"), std::string::npos);
  const std::vector<Tensor> images = unlike_images(alone.input_shapes()[0]);
  std::vector<std::vector<Tensor>> expected;
  for (const Tensor& image : images) {
    expected.emplace_back();
    for (const Tensor& output : alone.run(std::span(&image, 1))) expected.back().push_back(output.clone());
  }
  for (const std::int64_t n : batches) {
    options.batch = n;
    Plan plan = graph.compile(options);
    Tensor input(plan.input_shapes()[0]);
    const std::size_t shifts = n > 32 ? 1 : images.size();  // of many, not every image in every place
    for (std::size_t shift = 0; shift < shifts; ++shift) {
      const auto image_at = [&](std::int64_t place) {
        return (static_cast<std::size_t>(place) + shift) % images.size();
      };
      for (std::int64_t place = 0; place < n; ++place) input.slice(place, place + 1).copy_from(images[image_at(place)]);
      const auto outputs = plan.run(std::span(&input, 1));
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        for (std::int64_t place = 0; place < n; ++place) {
          const Tensor mine = outputs[o].slice(place, place + 1);
          const auto bits = [](const Tensor& t) {
            return std::span(static_cast<const std::uint32_t*>(t.raw()), static_cast<std::size_t>(t.numel()));
          };
          const auto [is, was] = std::ranges::mismatch(bits(mine), bits(expected[image_at(place)][o]));
          ASSERT_TRUE(is == bits(mine).end())
              << "image " << image_at(place) << " in place " << place << " of " << n << ", output "
              << plan.output_names()[o] << ", " << name(options.precision) << ": element " << is - bits(mine).begin()
              << " is " << std::bit_cast<float>(*is) << ", alone " << std::bit_cast<float>(*was);
        }
      }
    }
  }
}

}  // namespace lamina::test
