#include "lamina/quantize/quantizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "lamina/base/error.h"
#include "lamina/graph/scores.h"
#include "lamina/layers/batch_norm2d.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/linear.h"
#include "lamina/layers/pool2d.h"
#include "lamina/layers/views.h"
#include "lamina/ops/op.h"
#include "lamina/quantize/calibrate.h"
#include "lamina/quantize/draft.h"
#include "quantize/networks.h"

namespace lamina::quantize_test {
namespace {

using test::conv, test::distance, test::drawn, test::samples;

/// conv, norm, ReLU, depthwise, ReLU, conv, a sum with what the first part gave, mean, linear. The channels within are
/// `factor` to 1 times as large as each other; the answers are not. With a bound, the first ReLU is a Clip.
Model network(float factor = 1, float bound = 0) {
  Model model;
  Graph& g = model.graph;
  const Value x = g.input("x", {batch, 3, 12, 12});
  Conv2d first = conv({.in = 3, .out = 8, .kernel = 3, .padding = 1}, 1);
  Conv2d depthwise = conv({.in = 8, .out = 8, .kernel = 3, .padding = 1, .groups = 8}, 3);
  Conv2d last = conv({.in = 8, .out = 8}, 5);
  Tensor first_weight = first.weight().clone(), first_bias = first.bias().clone(), weight = depthwise.weight().clone();
  for (std::size_t c = 0; c < 8; ++c) {
    const float by = std::pow(factor, static_cast<float>(c) / 7);
    for (float& w : first_weight.values<float>().subspan(c * 27, 27)) w *= by;
    first_bias.values<float>()[c] *= by;
    for (float& w : weight.values<float>().subspan(c * 9, 9)) w /= by;
  }
  first.set_weight(first_weight), first.set_bias(first_bias), depthwise.set_weight(weight);
  Value y = g.add("first", std::move(first), x);
  BatchNorm2d norm({.channels = 8});
  norm.set_parameter("weight", Tensor::from(std::vector<float>(8, 1.5f), {8}));
  norm.set_parameter("bias", Tensor::from(std::vector<float>(8, 0), {8}));
  norm.set_parameter("running_mean", Tensor::from(std::vector<float>(8, 0), {8}));
  norm.set_parameter("running_var", Tensor::from(std::vector<float>(8, 2), {8}));
  y = g.add("norm", std::move(norm), y);
  if (bound > 0) {
    const auto number = [&](const char* name, float value) {
      return g.add(name, std::make_shared<Constant>(Tensor::from(std::vector<float>{value}, Shape{})), {});
    };
    const Value low = number("low", 0), high = number("high", bound);
    y = g.add("clip", std::make_shared<Op>("Clip"), std::vector<Value>{y, low, high});
  } else {
    y = g.add("relu", ReLU(), y);
  }
  y = g.add("depthwise", std::move(depthwise), y);
  const Value between = g.add("relu2", ReLU(), y);
  y = g.add("last", std::move(last), between);
  y = g.add("sum", std::make_shared<Op>("Add"), std::vector<Value>{y, between});
  y = g.add("mean", std::make_shared<Op>("GlobalAveragePool"), std::vector<Value>{y});
  y = g.add("flat", std::make_shared<Op>("Flatten"), std::vector<Value>{y});
  Linear linear({.in = 8, .out = 5});
  linear.set_weight(drawn({5, 8}, 9)), linear.set_bias(drawn({5}, 10));
  g.output(g.add("scores", std::move(linear), y));
  return model;
}

std::string message(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Quantize, DraftComputesWhatTheGraphDoesWithNormsInTheWeights) {
  const Model model = network();
  const Graph drafted = detail::Draft(model.graph).graph();
  EXPECT_LT(distance(drafted, model.graph, samples(1)[0]), 1e-6);
  EXPECT_EQ(drafted.find("norm"), nullptr);
  EXPECT_EQ(drafted.find("first")->module->op(), "Conv");
}

/// As exporters write the end of a ConvNeXt block: x W, plus a bias, channels in front, times factors, and the sum.
TEST(Quantize, DraftTakesBiasesAndFactorsBehindATransposeIntoTheWeights) {
  Model model;
  Graph& g = model.graph;
  const auto op = [&](const char* name, const char* of, std::vector<Value> inputs, Attributes attributes = {}) {
    return g.add(name, std::make_shared<Op>(of, std::move(attributes)), inputs);
  };
  const auto constant = [&](const char* name, Tensor value) {
    return g.add(name, std::make_shared<Constant>(std::move(value)), {});
  };
  const auto turned = [&](const char* name, Value of, std::vector<std::int64_t> order) {
    return op(name, "Transpose", {of}, {{"perm", std::move(order)}});
  };
  const Value x = g.input("x", {batch, 3, 12, 12});
  const Value rows = turned("rows", x, {0, 2, 3, 1});
  Value y = op("product", "MatMul", {rows, constant("weight", drawn({3, 3}, 1))});
  y = op("biased", "Add", {constant("bias", drawn({3}, 2)), y});
  y = op("scaled", "Mul", {turned("image", y, {0, 3, 1, 2}), constant("factors", drawn({3, 1, 1}, 3))});
  y = op("other", "Mul", {op("sum", "Add", {x, y}), constant("others", drawn({1, 1, 12, 12}, 4))});
  g.output(y);
  const Graph drafted = detail::Draft(model.graph).graph();
  EXPECT_LT(distance(drafted, model.graph, samples(1)[0]), 1e-6);
  for (const char* gone : {"biased", "scaled"}) EXPECT_EQ(drafted.find(gone), nullptr) << gone;
  for (const char* kept : {"image", "sum", "other"}) EXPECT_NE(drafted.find(kept), nullptr) << kept;
}

TEST(Quantize, MultipliesInEightBitsAndIsReadBackFromItsFile) {
  const Model model = network();
  const Quantized quantized = quantize(model, samples(12));
  EXPECT_EQ(quantized.layers.size(), 4u);
  for (const QuantizedLayer& layer : quantized.layers) EXPECT_TRUE(layer.quantized && layer.error > 0) << layer.name;
  EXPECT_EQ(quantized.held_back, 3u);
  EXPECT_GT(quantized.error, 0);
  EXPECT_LT(quantized.error, 0.05);
  const Model read = model_from(to_weights(quantized.model));
  EXPECT_EQ(distance(read.graph, quantized.model.graph, samples(1)[0]), 0);
  const std::string plan = read.graph.plan_summary();
  std::size_t count = 0;
  for (std::size_t at = plan.find("u8 nhwc"); at != plan.npos; at = plan.find("u8 nhwc", at + 1)) ++count;
  EXPECT_GE(count, 4u) << plan;
}

/// A convolution times a factor for each channel, x times its sigmoid, squeeze and excitation, a channel shuffle.
Model gated_network() {
  Model model;
  Graph& g = model.graph;
  const auto op = [&](const char* name, const char* of, Attributes attributes, std::vector<Value> inputs) {
    return g.add(name, std::make_shared<Op>(of, std::move(attributes)), inputs);
  };
  const auto constant = [&](const char* name, Tensor value) {
    return g.add(name, std::make_shared<Constant>(std::move(value)), {});
  };
  const Value x = g.input("x", {1, 3, 12, 12});
  Value y = g.add("first", conv({.in = 3, .out = 32, .kernel = 3, .padding = 1}, 1), x);
  const Value factors = constant("factors", drawn({32, 1, 1}, 11));
  y = op("scaled", "Mul", {}, {factors, y});
  const Value sigmoid = op("sigmoid", "Sigmoid", {}, {y}), silu = op("silu", "Mul", {}, {y, sigmoid});
  y = op("mean", "GlobalAveragePool", {}, {silu});
  y = op("relu", "Relu", {}, {g.add("less", conv({.in = 32, .out = 8}, 3), y)});
  y = op("gate", "HardSigmoid", {}, {g.add("more", conv({.in = 8, .out = 32}, 5), y)});
  y = op("gated", "Mul", {}, {silu, y});
  const auto shape = [](std::vector<std::int64_t> values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return Tensor::from(std::move(values), {count});
  };
  y = op("groups", "Reshape", {}, {y, constant("by_groups", shape({1, 2, 16, 12, 12}))});
  y = op("turned", "Transpose", {{"perm", std::vector<std::int64_t>{0, 2, 1, 3, 4}}}, {y});
  y = op("shuffled", "Reshape", {}, {y, constant("as_before", shape({1, 32, 12, 12}))});
  const Value bias = constant("bias", drawn({16}, 8)), shared = op("shared", "Identity", {}, {bias});
  g.output(op("last", "Conv", {}, {y, constant("weight", drawn({16, 32, 1, 1}, 7, 0.2f)), shared}));
  return model;
}

TEST(Quantize, GatesFunctionsAndShufflesAreOfCodes) {
  const Model model = gated_network();
  const Graph drafted = detail::Draft(model.graph).graph();
  EXPECT_LT(distance(drafted, model.graph, samples(1)[0]), 1e-6);
  EXPECT_EQ(drafted.find("first"), nullptr);  // the factors are in its weights, and it has their name
  const Quantized quantized = quantize(model, samples(12));
  EXPECT_LT(quantized.error, 0.05);
  for (const char* name : {"scaled", "sigmoid", "silu", "mean", "relu", "more", "gate", "gated", "shuffled"})
    EXPECT_NE(quantized.model.graph.find(std::string(name) + "_quantized"), nullptr) << name;
  EXPECT_EQ(quantized.model.graph.find("less_quantized"), nullptr);  // the ReLU's codes are its own
  const std::string plan = quantized.model.graph.plan_summary();
  EXPECT_GE(plan.find("f32"), plan.find("last")) << plan;
}

TEST(Quantize, ChannelsOfDifferentSizesAreBroughtToOne) {
  const Model model = network(1000);
  detail::Draft draft(model.graph);
  const std::vector<Tensor> some = samples(12);
  const auto seen = detail::observe(draft, detail::computed_by_products(draft), some, {});
  EXPECT_EQ(detail::equalize(draft, seen), 1u);
  EXPECT_LT(distance(draft.graph(), model.graph, some[0]), 1e-6);
  const Quantized with = quantize(model, some), without = quantize(model, some, {.equalize = false});
  EXPECT_EQ(with.equalized, 1u);
  EXPECT_LT(4 * with.error, without.error);
  EXPECT_LT(with.error, 0.05);
}

/// Those that a Clip cuts stay as they are, the others become as large as its bound allows: no answer changes.
TEST(Quantize, ChannelsPassAClipThatDoesNotCutThem) {
  const Model model = network(1000, 400);
  detail::Draft draft(model.graph);
  const std::vector<Tensor> some = samples(12);
  const auto seen = detail::observe(draft, detail::computed_by_products(draft), some, {});
  EXPECT_EQ(detail::equalize(draft, seen), 1u);
  for (const Tensor& x : some) EXPECT_LT(distance(draft.graph(), model.graph, x), 1e-6);
  const Quantized with = quantize(model, some), without = quantize(model, some, {.equalize = false});
  EXPECT_LT(2 * with.error, without.error);
}

TEST(Quantize, CorrectingBiasesTakesOffWhatRoundingAddsOnAverage) {
  detail::Product product = {.weight = drawn({4, 6, 1, 1}, 1)};
  const detail::Codes8 codes = detail::codes_of(product, 1);
  const std::vector<float> means = {3, -1, 2, 5, 4, 1};
  const Tensor bias = detail::corrected_bias(product, codes, means);
  for (std::size_t c = 0; c < 4; ++c) {
    double exact = 0, rounded = static_cast<double>(bias.values<float>()[c]);
    for (std::size_t i = 0; i < 6; ++i) {
      exact += static_cast<double>(product.weight.values<float>()[c * 6 + i] * means[i]);
      rounded += static_cast<double>(codes.scale.values<float>()[c] *
                                     static_cast<float>(codes.weight.values<std::int8_t>()[c * 6 + i]) * means[i]);
    }
    EXPECT_NEAR(exact, rounded, 1e-5);
  }
}

TEST(Quantize, LayersStayInFloatsUntilTheErrorHolds) {
  const Model model = network();
  const std::vector<Tensor> some = samples(12);
  const Quantized all = quantize(model, some);
  const Quantized some_left = quantize(model, some, {.max_error = all.error / 2});
  EXPECT_LE(some_left.error, all.error / 2);
  double least = 1, most = 0;
  for (const QuantizedLayer& layer : some_left.layers) {
    EXPECT_EQ(layer.why, layer.quantized ? "" : "its error");
    (layer.quantized ? most : least) = layer.quantized ? std::max(most, layer.error) : std::min(least, layer.error);
  }
  EXPECT_LT(least, 1);     // some are left out
  EXPECT_GT(most, 0);      // some are not
  EXPECT_LE(most, least);  // those that do most harm
  EXPECT_NE(message([&] { quantize(model, some, {.max_error = 1e-9}); }).find("no layer stays in eight bits"),
            std::string::npos);
}

TEST(Quantize, PercentilesCutOffWhatIsRare) {
  Model model;
  const Value x = model.graph.input("x", {batch, 1, 256, 256});
  model.graph.output(model.graph.add("conv", conv({.in = 1, .out = 2}, 1), x));
  Tensor sample = drawn({1, 1, 256, 256}, 1);
  sample.values<float>()[99] = 1000;
  const detail::Draft draft(model.graph);
  const std::vector<bool> input = {true, false};
  const auto all = detail::observe(draft, input, {&sample, 1}, {});
  const auto cut = detail::observe(draft, input, {&sample, 1}, {.calibration = Calibration::percentile});
  EXPECT_EQ(all[0].high, 1000);
  EXPECT_LT(cut[0].high, 10);
  EXPECT_LE(cut[0].low, 0);
}

TEST(Quantize, SaysWhatItCannotUse) {
  const Model model = network();
  EXPECT_EQ(message([&] { quantize(model, {}); }), "quantize: expected samples to calibrate with, got none");
  const Quantized once = quantize(model, samples(4));
  EXPECT_NE(message([&] { quantize(once.model, samples(4)); }).find("the model is quantised already"),
            std::string::npos);
  Model plain;
  plain.graph.output(plain.graph.add(ReLU(), plain.graph.input("x", {batch, 3, 12, 12})));
  EXPECT_NE(message([&] { quantize(plain, samples(4)); }).find("there is nothing to quantise"), std::string::npos);
  std::vector<Tensor> odd = samples(4);
  odd[1].values<float>()[7] = std::nanf("");
  EXPECT_NE(message([&] { quantize(model, odd); }).find("only numbers can be quantised"), std::string::npos);
  EXPECT_NE(message([&] { quantize(model, samples(4), {.max_error = -1}); }).find("expected a max_error of 0 or more"),
            std::string::npos);
}

TEST(Quantize, ConstantsAndSingleSamplesAreEnough) {
  const std::vector<Tensor> black = {Tensor::zeros({1, 3, 12, 12})};
  const Quantized quantized = quantize(network(), black);
  EXPECT_EQ(quantized.held_back, 1u);
  EXPECT_LT(quantized.error, 0.05);
}

TEST(Quantize, DigitsAreReadAsWellInEightBits) {
  const Model model = load_model(LAMINA_SOURCE_DIR "/weights/digits.safetensors");
  std::vector<Tensor> pictures;
  for (int digit = 0; digit < 10; ++digit)
    pictures.push_back(
        load_image(LAMINA_SOURCE_DIR "/weights/digits/" + std::to_string(digit) + ".png", *model.preprocess));
  const Quantized quantized = quantize(model, pictures);
  const Weights test = Weights::open(LAMINA_SOURCE_DIR "/weights/digits/test.safetensors");
  const Tensor images = test.at("images"), targets = test.at("targets");  // [360, 8, 8], [360]
  Plan plan = quantized.model.graph.compile();
  int right = 0;
  for (std::int64_t i = 0; i < images.shape()[0]; ++i) {
    Image picture{8, 8, {}};
    for (const std::uint8_t level : images.slice(i, i + 1).values<std::uint8_t>())
      picture.rgb.insert(picture.rgb.end(), 3, level);
    const Tensor scores = plan.run(preprocess(picture, *model.preprocess));
    right += top_k(scores, 1)[0].index == targets.values<std::uint8_t>()[static_cast<std::size_t>(i)];
  }
  EXPECT_GE(right, 355);  // 98.6 %, as in floats
}

}  // namespace
}  // namespace lamina::quantize_test
