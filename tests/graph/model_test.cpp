#include "lamina/graph/model.h"

#include <array>
#include <cmath>
#include <random>

#include "lamina/layers/views.h"
#include "lamina/ops/op.h"
#include "support/file_test.h"
#include "support/networks.h"

namespace lamina::test::model_test {
namespace {

/// Weights for one 1x1 convolution "conv" of 2 channels, with `graph` as their graph.
Weights weights_with(const std::string& graph) {
  Weights weights;
  weights.set("conv.weight", random_tensor({2, 2, 1, 1}, 1));
  weights.metadata()["lamina.graph"] = graph;
  return weights;
}

/// A graph of these nodes, as JSON.
std::string graph_of(const std::string& nodes, const std::string& outputs = R"(["conv"])") {
  return R"({"version": 1, "inputs": [{"name": "input", "dtype": "f32", "shape": ["N", 2, 3, 3]}], "nodes": [)" +
         nodes + R"(], "outputs": )" + outputs + "}";
}

const std::string conv_node = R"({"name": "conv", "op": "conv2d", "inputs": ["input"]})";

TEST(Model, SurvivesSavingAndLoading) {
  const TemporaryDirectory dir;
  Model model;
  model.graph = branching_network();
  model.preprocess = torchvision_imagenet();
  model.labels = {"cat", "", "dog"};
  save_model(dir / "model", model);
  const Model loaded = load_model(dir / "model");
  EXPECT_EQ(load_model(as_bytes(read_file(dir / "model"))).labels, model.labels);
  EXPECT_EQ(loaded.labels, model.labels);
  EXPECT_EQ(loaded.preprocess, model.preprocess);
  EXPECT_TRUE(loaded.warnings.empty());
  const std::vector<Tensor> inputs = {random_tensor({1, 3, 16, 16}, 9)};
  Plan a = model.graph.compile(), b = loaded.graph.compile();
  const auto expected = a.run(inputs), actual = b.run(inputs);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto x = expected[i].values<float>(), y = actual[i].values<float>();
    EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin(), y.end()));
  }
}

TEST(Model, PreprocessThatIsNotKnownIsNotUsed) {
  Model model;
  expect_error([&] { (void)*model.preprocess; },
               {"does not say how a photograph becomes its input", "set Model::preprocess"});
  expect_error([&] { (void)model.preprocess->crop; }, {"torchvision_imagenet()"});
  expect_error([&] { (void)model.preprocess.value(); }, {"lamina convert"});
  model.preprocess = torchvision_imagenet();
  EXPECT_EQ(*model.preprocess, torchvision_imagenet());
  EXPECT_EQ(CompileOptions{.photos = model.preprocess}.photos, torchvision_imagenet());
}

TEST(Model, PreprocessIsWrittenAsPeopleWriteIt) {
  const TemporaryDirectory dir;
  Model model;
  model.graph = small_network();
  model.preprocess = torchvision_imagenet();
  save_model(dir / "model", model);
  EXPECT_EQ(Weights::open(dir / "model").metadata().at("lamina.preprocess"),
            R"({"resize":256,"crop":224,"mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225]})");
}

TEST(Model, PreprocessSaysWhatCaffesNetworksWant) {
  const TemporaryDirectory dir;
  Model model;
  model.graph = small_network();
  model.preprocess = caffe_imagenet();
  save_model(dir / "model", model);
  EXPECT_EQ(Weights::open(dir / "model").metadata().at("lamina.preprocess"),
            R"({"resize":256,"crop":227,"mean":[122.67892,116.66877,104.00699],"std":[1.0,1.0,1.0],)"
            R"("divisor":1.0,"order":"bgr","aspect":"ignored"})");
  EXPECT_EQ(load_model(dir / "model").preprocess, caffe_imagenet());
  Weights weights = weights_with(graph_of(conv_node));
  weights.metadata()["lamina.preprocess"] = R"({"aspect": "kept", "order": "rgb", "divisor": 255})";
  EXPECT_EQ(model_from(weights).preprocess, torchvision_imagenet());
}

TEST(Model, PreprocessSaysWhatDetectorsWant) {
  const TemporaryDirectory dir;
  Model model;
  model.graph = small_network();
  model.preprocess = letterbox(640);
  model.preprocess->placement = Placement::corner;
  save_model(dir / "model", model);
  EXPECT_EQ(Weights::open(dir / "model").metadata().at("lamina.preprocess"),
            R"({"resize":640,"crop":640,"mean":[0.0,0.0,0.0],"std":[1.0,1.0,1.0],"aspect":"letterbox",)"
            R"("fill":[114,114,114],"rounding":"nearest","placement":"corner","antialias":false})");
  EXPECT_EQ(load_model(dir / "model").preprocess, model.preprocess);
}

TEST(Model, ReadsTheShippedFirstLayer) {
  const Model model = load_model(LAMINA_SOURCE_DIR "/weights/alexnet-conv1.safetensors");
  EXPECT_EQ(model.graph.find("features.1")->shape, (Shape{batch, 96, 55, 55}));
  EXPECT_EQ(model.preprocess, torchvision_imagenet());
}

TEST(Model, AcceptsNodesInAnyOrderAndSingleNumbersForPairs) {
  const Weights weights = weights_with(graph_of(
      R"({"name": "r", "op": "relu", "inputs": ["conv"], "attrs": {}},
         {"name": "conv", "op": "conv2d", "inputs": ["input"], "attrs": {"stride": 2, "padding": [1, 0]}})",
      R"(["r"])"));
  const Model model = model_from(weights);
  EXPECT_EQ(model.graph.find("r")->shape, (Shape{batch, 2, 3, 2}));
}

TEST(Model, AGraphWithoutTensors) {
  Weights weights;
  weights.metadata()["lamina.graph"] = graph_of(R"({"name": "r", "op": "relu", "inputs": ["input"]})", R"(["r"])");
  EXPECT_NO_THROW((void)model_from(weights).graph.compile());
}

TEST(Model, WarnsOfTensorsNobodyUses) {
  Weights weights = weights_with(graph_of(conv_node));
  weights.set("extra", Tensor::zeros({1}));
  weights.set("conv.num_batches_tracked", Tensor::zeros({}, DType::i64));
  const Model model = model_from(weights);
  ASSERT_EQ(model.warnings.size(), 1u);
  EXPECT_NE(model.warnings[0].find("extra"), std::string::npos);
}

struct BadGraph {
  std::string what, json;
  std::vector<std::string> words;
};

TEST(Model, RefusesMalformedGraphs) {
  const auto conv_with = [](const std::string& attrs) {
    return graph_of(R"({"name": "conv", "op": "conv2d", "inputs": ["input"], "attrs": )" + attrs + "}");
  };
  const std::vector<BadGraph> cases = {
      {"not JSON", "{", {"lamina.graph", "JSON"}},
      {"not an object", "[1]", {"lamina.graph", "object"}},
      {"deep", std::string(100000, '['), {"lamina.graph"}},
      {"no version", R"({"inputs": [], "nodes": [], "outputs": []})", {"version 1"}},
      {"version 2", R"({"version": 2, "inputs": [], "nodes": [], "outputs": []})", {"version 1", "2"}},
      {"unknown key", R"({"version": 1, "inputs": [], "nodes": [], "outputs": [], "colour": 1})", {"colour"}},
      {"no outputs", graph_of(conv_node, "[]"), {"output"}},
      {"unknown output", graph_of(conv_node, R"(["x"])"), {"\"x\"", "output"}},
      {"output twice", graph_of(conv_node, R"(["conv", "conv"])"), {"conv", "already"}},
      {"unknown op",
       graph_of(R"({"name": "conv", "op": "convolve", "inputs": ["input"]})"),
       {"conv", "\"convolve\"", "nearest", "conv2d"}},
      {"unknown attribute", conv_with(R"({"strides": 2})"), {"conv", "strides"}},
      {"wrong type", conv_with(R"({"stride": "2"})"), {"conv", "stride"}},
      {"fractional", conv_with(R"({"stride": 1.5})"), {"conv", "stride", "1.5"}},
      {"three numbers", conv_with(R"({"stride": [1, 2, 3]})"), {"conv", "stride", "[1, 2, 3]"}},
      {"stride 0", conv_with(R"({"stride": 0})"), {"conv", "stride", "0x0"}},
      {"huge", conv_with(R"({"padding": 99999999999999999999})"), {"conv", "padding"}},
      {"negative padding", conv_with(R"({"padding": -1})"), {"conv", "padding"}},
      {"groups 0", conv_with(R"({"groups": 0})"), {"conv", "groups"}},
      {"groups 3", conv_with(R"({"groups": 3})"), {"conv", "groups", "3"}},
      {"missing tensor",
       graph_of(R"({"name": "c", "op": "conv2d", "inputs": ["input"]})", R"(["c"])"),
       {"c: ", "weight"}},
      {"unknown input", graph_of(R"({"name": "conv", "op": "conv2d", "inputs": ["x"]})"), {"conv", "\"x\""}},
      {"no inputs", graph_of(R"({"name": "conv", "op": "conv2d", "inputs": []})"), {"conv", "input"}},
      {"two inputs",
       graph_of(R"({"name": "conv", "op": "conv2d", "inputs": ["input", "input"]})"),
       {"conv", "1 input"}},
      {"cycle",
       graph_of(conv_node +
                R"(, {"name": "a", "op": "relu", "inputs": ["b"]}, {"name": "b", "op": "relu", "inputs": ["a"]})"),
       {"a: ", "cycle"}},
      {"itself", graph_of(R"({"name": "conv", "op": "conv2d", "inputs": ["conv"]})"), {"conv", "cycle"}},
      {"duplicate", graph_of(conv_node + ", " + conv_node), {"conv", "already"}},
      {"node named as the input",
       graph_of(R"({"name": "input", "op": "relu", "inputs": ["input"]})", R"(["input"])"),
       {"input", "already"}},
      {"duplicate key",
       graph_of(R"({"name": "conv", "name": "x", "op": "relu", "inputs": ["input"]})"),
       {"duplicate", "name"}},
      {"input of another dtype",
       R"({"version": 1, "inputs": [{"name": "i", "dtype": "u7", "shape": [1]}], "nodes": [], "outputs": ["i"]})",
       {"i: ", "u7"}},
      {"input of extent -1",
       R"({"version": 1, "inputs": [{"name": "i", "shape": ["N", -1]}], "nodes": [], "outputs": ["i"]})",
       {"i: ", "-1"}},
      {"channels",
       graph_of(
           R"({"name": "f", "op": "flatten", "inputs": ["input"]}, {"name": "conv", "op": "conv2d", "inputs": ["f"]})"),
       {"conv", "[N, C, H, W]"}},
      {"attributes of relu",
       graph_of(R"({"name": "r", "op": "relu", "inputs": ["input"], "attrs": {"slope": 1}})", R"(["r"])"),
       {"r: ", "slope"}},
  };
  for (const BadGraph& c : cases) expect_error([&] { (void)model_from(weights_with(c.json)); }, c.words, c.what);
}

TEST(Model, RefusesMalformedPreprocessing) {
  for (const char* bad :
       {"{", "[]", R"({"resize": 0})", R"({"crop": -5})", R"({"resize": 1.5})", R"({"mean": [1, 2]})",
        R"({"std": "x"})", R"({"size": 3})", R"({"crop": 99999999999})", R"({"divisor": 0})", R"({"divisor": "1"})",
        R"({"order": "gbr"})", R"({"order": 1})", R"({"aspect": true})", R"({"aspect": ""})", R"({"fill": 114})",
        R"({"fill": [1, 2, 256]})", R"({"antialias": 0})", R"({"placement": 0})"}) {
    Weights weights = weights_with(graph_of(conv_node));
    weights.metadata()["lamina.preprocess"] = bad;
    expect_error([&] { (void)model_from(weights); }, {"lamina.preprocess"}, bad);
  }
}

TEST(Model, NamesTheFileThatIsNoModel) {
  const TemporaryDirectory dir;
  Weights weights;
  weights.set("x", Tensor::zeros({1}));
  weights.save(dir / "plain");
  expect_error([&] { (void)load_model(dir / "plain"); }, {"plain", "no graph"});
  expect_error([&] { (void)load_model(dir / "missing"); }, {"missing"});
}

TEST(Model, AFailedSaveLeavesTheOldFile) {
  const TemporaryDirectory dir;
  write_file(dir / "model", "old");
  Model model;
  const Value x = model.graph.input("input", {batch, 1, 2, 2});
  model.graph.output(model.graph.add("conv", Conv2d({.in = 1, .out = 1, .kernel = 1}), x));
  expect_error([&] { save_model(dir / "model", model); }, {"conv.weight"});
  EXPECT_EQ(read_file(dir / "model"), "old");
}

TEST(Model, NanInTheWeightsPropagates) {
  Weights weights = weights_with(graph_of(conv_node));
  Tensor w = weights.at("conv.weight").clone();
  w.values<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  weights.set("conv.weight", w);
  Plan plan = model_from(weights).graph.compile();
  const Tensor y = plan.run(random_tensor({1, 2, 3, 3}, 2));
  EXPECT_TRUE(std::isnan(y.values<float>()[0]));
  EXPECT_FALSE(std::isnan(y.values<float>()[9]));  // the second filter has no NaN
}

/// The batch and open extents at any place, as an exporter's names have them.
TEST(ModelFile, OpensAsTheNetworkThatWasWritten) {
  const TemporaryDirectory dir;
  std::mt19937 random(1);
  const auto below = [&](std::uint32_t end) { return static_cast<std::size_t>(random() % end); };
  for (int i = 0; i < 60; ++i) {
    Model model;
    std::vector<std::int64_t> declared, there;
    for (std::size_t d = 0, rank = below(5); d < rank; ++d) {
      declared.push_back(std::array{batch, open, std::int64_t{3}}[below(3)]);
      there.push_back(declared.back() == batch ? 2 : declared.back() == open ? 4 : 3);
    }
    Value x = model.graph.input("x", Shape(declared));
    const Value first = x;
    for (std::size_t k = 0, count = 1 + below(4); k < count; ++k) {
      const char* op = std::array{"Relu", "Sigmoid", "Add", "LeakyRelu"}[below(4)];
      Attributes attributes;
      if (op == std::string_view("LeakyRelu")) attributes = {{"alpha", 0.25}};
      const std::vector<Value> inputs = op == std::string_view("Add") ? std::vector{x, first} : std::vector{x};
      x = model.graph.add(std::to_string(k), std::make_shared<Op>(op, attributes), inputs);
    }
    model.graph.output(x);
    save_model(dir / "net.safetensors", model);
    const Model read = load_model(dir / "net.safetensors");
    EXPECT_EQ(read.graph.nodes()[0].shape, Shape(declared));
    const CompileOptions options = {.batch = 2, .input_shapes = {{"x", Shape(there)}}};
    const Tensor image = random_tensor(Shape(there), 7);
    Plan a = model.graph.compile(options), b = read.graph.compile(options);
    const Tensor expected = a.run(image), found = b.run(image);
    EXPECT_EQ(found.shape(), expected.shape());
    EXPECT_TRUE(std::ranges::equal(found.values<float>(), expected.values<float>()));
  }
  Model odd;
  const Value x = odd.graph.input("x", {batch, 3});
  odd.graph.output(odd.graph.add("y", std::make_shared<Op>("LeakyRelu", Attributes{{"alpha", INFINITY}}), {&x, 1}));
  expect_error([&] { save_model(dir / "odd.safetensors", odd); }, {"cannot be written", "y", "alpha"});
}

TEST(ModelFile, HasALabelForEachClassAndItsOwnEnding) {
  const TemporaryDirectory dir;
  Model model;
  model.graph.output(model.graph.add("flat", Flatten(), model.graph.input("x", {batch, 3, 2, 2})));
  model.labels = {"cat", "dog"};
  expect_error([&] { save_model(dir / "net.safetensors", model); }, {"labels", "12", "2"});
  model.labels.assign(12, "");  // the first are kept, too
  model.labels[11] = "dog";
  for (const char* name : {"net.pt", "net.tflite"})
    expect_error([&] { save_model(dir / name, model); }, {"ends in .safetensors", name});
  save_model(dir / "net.safetensors", model);
  EXPECT_EQ(load_model(dir / "net.safetensors").labels, model.labels);
}

}  // namespace
}  // namespace lamina::test::model_test
