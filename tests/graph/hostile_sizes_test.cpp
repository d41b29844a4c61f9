// Whatever number stands where a file has a size, a model runs as the plain loops do or is refused with an Error. Under
// the undefined-behaviour sanitizer (preset asan) no product or sum on the way may overflow.

#include <map>
#include <nlohmann/json.hpp>

#include "lamina/graph/model.h"
#include "lamina/layers/op_table.h"
#include "support/file_test.h"
#include "support/layer_cases.h"

namespace lamina::hostile_sizes_test {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t int_max = std::numeric_limits<int>::max(), int64_max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t sizes[] = {0,
                                  1,
                                  -1,
                                  2,
                                  int_max / 8,
                                  int_max / 4,
                                  int_max - 1,
                                  int_max,
                                  -int_max,
                                  -int_max - 1,
                                  int_max + 1,
                                  std::int64_t{1} << 40,
                                  int64_max,
                                  -int64_max,
                                  -int64_max - 1};

/// Outputs, or nothing if the model is refused or would take more memory than a test should.
std::vector<std::vector<float>> outputs_of(const Weights& weights, const CompileOptions& options) {
  std::vector<std::vector<float>> result;
  try {
    const Graph graph = model_from(weights).graph;
    constexpr std::int64_t most = 1 << 20;  // elements
    const std::vector<Shape> shapes = graph.shapes(options.batch);
    const std::size_t bytes = graph.plan_memory(options).total();
    if (bytes > 4 * most || std::ranges::any_of(shapes, [](const Shape& s) { return s.numel() > most; })) return {};
    Plan plan = graph.compile(options);
    std::vector<Tensor> inputs;
    for (const Shape& shape : plan.input_shapes()) inputs.push_back(test::drawn(shape, 7));
    for (const Tensor& output : plan.run(inputs)) {
      result.emplace_back(output.values<float>().begin(), output.values<float>().end());
    }
  } catch (const Error&) {
  }
  return result;
}

void run(const Weights& weights) {
  (void)outputs_of(weights, {.threads = 1});
  (void)outputs_of(weights, {.batch = 3, .threads = 2});
}

/// The model of one layer.
Weights model_of(const std::shared_ptr<Module>& module, const std::vector<Tensor>& inputs) {
  Model model;
  std::vector<Value> values;
  for (const Tensor& input : inputs)
    values.push_back(model.graph.input("in" + std::to_string(values.size()), input.shape()));
  model.graph.output(model.graph.add("node", module, values));
  return to_weights(model);
}

/// Calls body(weights) with each of `sizes` in the place of each number that stands in `part` of the model's JSON.
template <class Body>
void for_each_size(Weights weights, const Json::json_pointer& part, const Body& body) {
  Json root = Json::parse(weights.metadata().at("lamina.graph"));
  if (!root.contains(part)) return;
  const Json flat = root.at(part).flatten();
  for (const auto& [place, value] : flat.items()) {
    if (!value.is_number()) continue;
    for (const std::int64_t size : sizes) {
      Json changed = root;
      changed.at(part).at(Json::json_pointer(place)) = size;
      weights.metadata()["lamina.graph"] = changed.dump();
      body(weights);
    }
  }
}

/// Two layers of each op.
std::multimap<std::string, test::LayerCase> layers() {
  std::multimap<std::string, test::LayerCase> result;
  auto cases = test::layer_cases();
  for (auto c = cases.rbegin(); c != cases.rend(); ++c) {
    const std::string op(c->module->op());
    if (c->inputs[0].numel() < 300 && result.count(op) < 2) result.emplace(op, *c);
  }
  const Tensor x = test::drawn({2, 4, 6, 5}, 3);
  auto conv = std::make_shared<Conv2d>(Conv2dOptions{.in = 4, .out = 6, .kernel = {3, 2}, .padding = 1, .groups = 2});
  auto plain = std::make_shared<Conv2d>(Conv2dOptions{.in = 4, .out = 16, .kernel = 1});
  test::set_parameters(*conv, 4);
  test::set_parameters(*plain, 5);
  result.insert({{"conv2d", {"", conv, {x}, {}}}, {"conv2d", {"", plain, {x}, {}}}});
  for (const std::shared_ptr<Module>& module :
       {std::shared_ptr<Module>(std::make_shared<ReLU>()), std::shared_ptr<Module>(std::make_shared<Flatten>()),
        std::shared_ptr<Module>(std::make_shared<Dropout>())}) {
    result.insert({std::string(module->op()), {"", module, {x}, {}}});
  }
  return result;
}

TEST(HostileSizes, InEveryAttributeOfEveryOp) {
  const auto all = layers();
  for (const std::string& op : detail::known_ops())
    EXPECT_TRUE(all.contains(op)) << op << " has no case in support/layer_cases.h";
  for (const auto& [op, layer] : all) {
    const Weights weights = model_of(layer.module, layer.inputs);
    for_each_size(weights, Json::json_pointer("/nodes/0/attrs"), run);
    // Two at a time: one far too large beside each of the others.
    for_each_size(weights, Json::json_pointer("/nodes/0/attrs"), [](const Weights& once) {
      if (once.metadata().at("lamina.graph").find("2147483647") == std::string::npos) return;
      for_each_size(once, Json::json_pointer("/nodes/0/attrs"),
                    [](const Weights& twice) { (void)outputs_of(twice, {.threads = 1}); });
    });
  }
}

TEST(HostileSizes, InEveryInput) {
  for (const auto& [op, layer] : layers()) {
    const Weights weights = model_of(layer.module, layer.inputs);
    for_each_size(weights, Json::json_pointer("/inputs"), [](const Weights& once) {
      run(once);
      if (once.metadata().at("lamina.graph").find(std::to_string(int_max / 4)) == std::string::npos) return;
      for_each_size(once, Json::json_pointer("/inputs"),
                    [](const Weights& twice) { (void)outputs_of(twice, {.threads = 2}); });
    });
  }
}

TEST(HostileSizes, InTheOptions) {
  for (const auto& [op, layer] : layers()) {
    Weights weights = model_of(layer.module, layer.inputs);
    std::string& graph = weights.metadata()["lamina.graph"];
    if (const auto at = graph.find("\"shape\":["); at != graph.npos) {
      const auto first = at + 9;
      graph.replace(first, graph.find_first_of(",]", first) - first, "\"N\"");
    }
    for (const std::int64_t size : sizes) {
      (void)outputs_of(weights, {.batch = size, .threads = 1});
      if (size > 4096 && size <= int_max) (void)outputs_of(weights, {.threads = static_cast<int>(size)});
    }
  }
}

/// The others are for depthwise and grouped layers, or for bf16; cpu_test has each of them on its own.
bool takes_plain(std::string_view algorithm) {
  constexpr std::string_view all[] = {"channels_last", "planes", "eigen", "direct"};
  return std::ranges::find(all, algorithm) != std::end(all);
}

TEST(HostileSizes, StridesOfOneWindow) {
  for (const int stride : {3, 1 << 30, std::numeric_limits<int>::max()}) {
    for (const std::string_view algorithm : conv_algorithms(DeviceType::cpu)) {
      Conv2d conv({.in = 1, .out = 1, .kernel = 1, .stride = stride, .dilation = stride, .bias = false});
      conv.set_weight(Tensor::from(std::vector<float>{2}, {1, 1, 1, 1}));
      Graph graph;
      graph.output(graph.add("conv", std::move(conv), graph.input("in", {1, 1, 4, 4})));
      if (!takes_plain(algorithm)) continue;
      Plan plan = graph.compile({.threads = 1, .algorithm = std::string(algorithm)});
      const Tensor y = plan.run(Tensor::from(std::vector<float>(16, 5), {1, 1, 4, 4}));
      EXPECT_EQ(y.values<float>()[0], 10) << algorithm << " with stride " << stride;
    }
  }
}

TEST(HostileSizes, AlgorithmsAgree) {
  for (const auto& [op, layer] : layers()) {
    if (op != "conv2d") continue;
    for_each_size(
        model_of(layer.module, layer.inputs), Json::json_pointer("/nodes/0/attrs"), [](const Weights& weights) {
          const auto truth = outputs_of(weights, {.threads = 1, .algorithm = "direct"});
          for (const std::string_view algorithm : conv_algorithms(DeviceType::cpu)) {
            if (!takes_plain(algorithm)) continue;
            const auto found = outputs_of(weights, {.threads = 1, .algorithm = std::string(algorithm)});
            ASSERT_EQ(found.size(), truth.size()) << algorithm << ' ' << weights.metadata().at("lamina.graph");
            for (std::size_t i = 0; !truth.empty() && i < truth[0].size(); ++i) {
              ASSERT_NEAR(found[0][i], truth[0][i], 1e-4) << algorithm << ' ' << weights.metadata().at("lamina.graph");
            }
          }
        });
  }
}

}  // namespace
}  // namespace lamina::hostile_sizes_test
