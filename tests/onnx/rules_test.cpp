// Older operator sets in the terms of the newest, one case for each rule.

#include <ostream>

#include "onnx/imported.h"
#include "support/onnx_writer.h"

namespace lamina::test::onnx::rules_test {
namespace {

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;

struct Case {
  const char* name;
  std::int64_t opset;
  Node node;
  std::string expected;  // the ops
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

const Message one = tensor_attribute("value", floats("", {1}, {1}));

std::vector<Case> cases() {
  return {
      {"BatchNormalization7",
       7,
       {"BatchNormalization", {"x", "w", "w", "w", "w"}, {"y"}, {attribute("spatial", 1), attribute("momentum", 0.9f)}},
       "y: BatchNormalization(x, w, w, w, w)\n"},
      {"BatchNormalization14",
       14,
       {"BatchNormalization", {"x", "w", "w", "w", "w"}, {"y", "m", "v"}, {attribute("training_mode", 0)}},
       "y: BatchNormalization(x, w, w, w, w)\n"},
      {"BatchNormalization14Training",
       14,
       {"BatchNormalization", {"x", "w", "w", "w", "w"}, {"y", "m", "v"}, {attribute("training_mode", 1)}},
       "y: BatchNormalization(x, w, w, w, w) training_mode=1\n"},
      {"Clip6",
       7,
       {"Clip", {"x"}, {"y"}, {attribute("min", 0.0f), attribute("max", 6.0f)}},
       "y: Clip(x, y/min, y/max)\n"},
      {"Clip6Max", 10, {"Clip", {"x"}, {"y"}, {attribute("max", 6.0f)}}, "y: Clip(x, y/min, y/max)\n"},
      {"Clip11", 11, {"Clip", {"x", "", "w"}, {"y"}}, "y: Clip(x, -, w)\n"},
      {"ConstantOfShape", 9, {"ConstantOfShape", {"i"}, {"y"}, {one}}, "y: Expand(y/value, i)\n"},
      {"ConstantOfShapeZeros", 20, {"ConstantOfShape", {"i"}, {"y"}}, "y: Expand(y/value, i)\n"},
      {"Dropout7", 7, {"Dropout", {"x"}, {"y"}, {attribute("ratio", 0.5f)}}, "y: Dropout(x)\n"},
      {"Dropout12", 12, {"Dropout", {"x", "w"}, {"y"}, {attribute("seed", 1)}}, "y: Dropout(x)\n"},
      {"Dropout13Training", 13, {"Dropout", {"x", "w", "b"}, {"y"}}, "y: Dropout(x, w, b)\n"},
      {"Dropout13Mask", 13, {"Dropout", {"x"}, {"unused", "y"}}, "y: Dropout(x) output=1\n"},
      {"GridSample16", 16, {"GridSample", {"x", "w"}, {"y"}}, "y: GridSample(x, w) mode=linear\n"},
      {"GridSample16Cubic",
       16,
       {"GridSample", {"x", "w"}, {"y"}, {attribute("mode", "bicubic"), attribute("align_corners", 1)}},
       "y: GridSample(x, w) align_corners=1, mode=cubic\n"},
      {"GridSample20",
       20,
       {"GridSample", {"x", "w"}, {"y"}, {attribute("mode", "nearest")}},
       "y: GridSample(x, w) mode=nearest\n"},
      {"GroupNormalization18",
       18,
       {"GroupNormalization", {"x", "w", "b"}, {"y"}, {attribute("num_groups", 2), attribute("epsilon", 0.5f)}},
       "y/channels: Shape(x) start=1, end=2\n"
       "y/channels_per_group: Div(y/channels, y/groups)\n"
       "y/groups_and_channels: Concat(y/groups, y/channels_per_group) axis=0\n"
       "y/scale_of_groups: Reshape(w, y/column)\n"
       "y/scale_repeated: Expand(y/scale_of_groups, y/groups_and_channels)\n"
       "y/scale_of_channels: Reshape(y/scale_repeated, y/flat)\n"
       "y/bias_of_groups: Reshape(b, y/column)\n"
       "y/bias_repeated: Expand(y/bias_of_groups, y/groups_and_channels)\n"
       "y/bias_of_channels: Reshape(y/bias_repeated, y/flat)\n"
       "y: GroupNormalization(x, y/scale_of_channels, y/bias_of_channels) num_groups=2, epsilon=0.5\n"},
      {"GroupNormalization21",
       21,
       {"GroupNormalization", {"x", "w", "b"}, {"y"}, {attribute("num_groups", 2)}},
       "y: GroupNormalization(x, w, b) num_groups=2\n"},
      {"Pad2",
       10,
       {"Pad", {"x"}, {"y"}, {attribute("pads", Ints{1, 1}), attribute("value", 2.0f)}},
       "y: Pad(x, y/pads, y/constant_value)\n"},
      {"Pad2Reflect",
       10,
       {"Pad", {"x"}, {"y"}, {attribute("mode", "reflect"), attribute("pads", Ints{1, 1}), attribute("value", 2.0f)}},
       "y: Pad(x, y/pads) mode=reflect\n"},
      {"Pad11", 11, {"Pad", {"x", "i", "w"}, {"y"}}, "y: Pad(x, i, w)\n"},
      {"ReduceMean13",
       13,
       {"ReduceMean", {"x"}, {"y"}, {attribute("axes", Ints{2, 3}), attribute("keepdims", 0)}},
       "y: ReduceMean(x, y/axes) keepdims=0\n"},
      {"ReduceMeanOfAll", 13, {"ReduceMean", {"x"}, {"y"}, {attribute("axes", Ints{})}}, "y: ReduceMean(x)\n"},
      {"ReduceMean18", 18, {"ReduceMean", {"x", "i"}, {"y"}}, "y: ReduceMean(x, i)\n"},
      {"ReduceSum11", 11, {"ReduceSum", {"x"}, {"y"}, {attribute("axes", Ints{1})}}, "y: ReduceSum(x, y/axes)\n"},
      {"ReduceSum13", 13, {"ReduceSum", {"x", "i"}, {"y"}}, "y: ReduceSum(x, i)\n"},
      {"Resize10Up",
       10,
       {"Resize", {"x", "up"}, {"y"}},
       "y: Resize(x, -, up) mode=nearest, coordinate_transformation_mode=asymmetric, nearest_mode=floor\n"},
      {"Resize10Down",
       10,
       {"Resize", {"x", "down"}, {"y"}},
       "y: Resize(x, -, down) mode=nearest, coordinate_transformation_mode=asymmetric, nearest_mode=ceil\n"},
      {"Resize10Linear",
       10,
       {"Resize", {"x", "down"}, {"y"}, {attribute("mode", "linear")}},
       "y: Resize(x, -, down) mode=linear, coordinate_transformation_mode=asymmetric\n"},
      {"Resize11Sizes", 11, {"Resize", {"x", "empty", "empty", "i"}, {"y"}}, "y: Resize(x, -, -, i)\n"},
      {"Resize11Scales", 11, {"Resize", {"x", "empty", "up"}, {"y"}}, "y: Resize(x, -, up)\n"},
      {"Scatter9", 9, {"Scatter", {"x", "i", "w"}, {"y"}}, "y: ScatterElements(x, i, w)\n"},
      {"Slice1",
       7,
       {"Slice", {"x"}, {"y"}, {attribute("starts", Ints{0}), attribute("ends", Ints{INT64_MAX})}},
       "y: Slice(x, y/starts, y/ends)\n"},
      {"Slice1Axes",
       9,
       {"Slice", {"x"}, {"y"}, {attribute("axes", Ints{1}), attribute("starts", Ints{0}), attribute("ends", Ints{1})}},
       "y: Slice(x, y/starts, y/ends, y/axes)\n"},
      {"Slice10", 10, {"Slice", {"x", "i", "i"}, {"y"}}, "y: Slice(x, i, i)\n"},
      {"Softmax11", 11, {"Softmax", {"x"}, {"y"}}, "y: Softmax(x) axis=1, flatten=1\n"},
      {"LogSoftmax12",
       12,
       {"LogSoftmax", {"x"}, {"y"}, {attribute("axis", 2)}},
       "y: LogSoftmax(x) axis=2, flatten=1\n"},
      {"Softmax13", 13, {"Softmax", {"x"}, {"y"}}, "y: Softmax(x)\n"},
      {"Split2",
       11,
       {"Split", {"x"}, {"unused", "y"}, {attribute("split", Ints{1, 2}), attribute("axis", 1)}},
       "y: Split(x, y/split) axis=1, output=1\n"},
      {"Split2Equal", 7, {"Split", {"x"}, {"y", "unused"}}, "y: Split(x) num_outputs=2\n"},
      {"Split13", 13, {"Split", {"x", "i"}, {"y", "unused"}}, "y: Split(x, i)\n"},
      {"Split18",
       18,
       {"Split", {"x"}, {"y", "unused", "too"}, {attribute("num_outputs", 3)}},
       "y: Split(x) num_outputs=3\n"},
      {"Squeeze11", 11, {"Squeeze", {"x"}, {"y"}, {attribute("axes", Ints{0})}}, "y: Squeeze(x, y/axes)\n"},
      {"Squeeze13", 13, {"Squeeze", {"x"}, {"y"}}, "y: Squeeze(x)\n"},
      {"Unsqueeze11", 11, {"Unsqueeze", {"x"}, {"y"}, {attribute("axes", Ints{0})}}, "y: Unsqueeze(x, y/axes)\n"},
      {"TopK1", 9, {"TopK", {"x"}, {"y"}, {attribute("k", 3)}}, "y: TopK(x, y/k)\n"},
      {"TopK10", 10, {"TopK", {"x", "i"}, {"y"}}, "y: TopK(x, i)\n"},
      {"Upsample7",
       7,
       {"Upsample", {"x"}, {"y"}, {attribute("scales", Floats{1, 1, 2, 2})}},
       "y: Resize(x, -, y/scales) mode=nearest, coordinate_transformation_mode=asymmetric, nearest_mode=floor\n"},
      {"Upsample9",
       9,
       {"Upsample", {"x", "up"}, {"y"}, {attribute("mode", "linear")}},
       "y: Resize(x, -, up) mode=linear, coordinate_transformation_mode=asymmetric\n"},
      {"ListsOfTexts",
       14,
       {"GRU",
        {"x", "w", "w"},
        {"y"},
        {Message().text(1, "activations").text(9, "Sigmoid").text(9, "Tanh").integer(20, 8)}},
       "y: GRU(x, w, w) activations=Sigmoid,Tanh\n"},
  };
}

detail::onnx::Imported import_node(const Node& node, std::int64_t opset) {
  const Graph g{.nodes = {node},
                .initializers = {floats("w", {1}, {1}), floats("up", {4}, {1, 1, 2, 2}),
                                 floats("mixed", {2}, {0.5f, 2}), floats("down", {4}, {1, 1, 0.5f, 0.6f}),
                                 floats("empty", {0}, {}), ints("i", {1}), floats("b", {1}, {1})}};
  return import_bytes(onnx::model(g, opset));
}

class OnnxRules : public testing::TestWithParam<Case> {};

TEST_P(OnnxRules, BringToTheNewest) {
  EXPECT_EQ(ops(import_node(GetParam().node, GetParam().opset)), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(Cases, OnnxRules, testing::ValuesIn(cases()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(OnnxRulesValues, OfAttributesThatBecameInputs) {
  const auto value = [](const Node& node, std::int64_t opset, const std::string& name) {
    for (const auto& imported : import_node(node, opset).nodes) {
      if (imported.name == name) return imported.value;
    }
    ADD_FAILURE() << name;
    return Tensor();
  };
  EXPECT_EQ(value({"Clip", {"x"}, {"y"}, {attribute("min", -1.5f)}}, 7, "y/min").values<float>()[0], -1.5f);
  const Node slice = {"Slice", {"x"}, {"y"}, {attribute("starts", Ints{-3, 1}), attribute("ends", Ints{INT64_MAX, 2})}};
  EXPECT_EQ(value(slice, 9, "y/starts").description(), "i64 [2] on cpu");
  EXPECT_EQ(value(slice, 9, "y/ends").values<std::int64_t>()[0], INT64_MAX);
  EXPECT_EQ(value({"ConstantOfShape", {"i"}, {"y"}, {one}}, 9, "y/value").description(), "f32 [] on cpu");
  EXPECT_EQ(value({"ConstantOfShape", {"i"}, {"y"}, {one}}, 9, "y/value").values<float>()[0], 1.0f);
}

TEST(OnnxRulesValues, NewNamesAreUnique) {
  const Graph g{.nodes = {{"Squeeze", {"x"}, {"y/axes"}, {attribute("axes", Ints{0})}},
                          {"Squeeze", {"y/axes"}, {"y"}, {attribute("axes", Ints{0})}}}};
  EXPECT_EQ(ops(import_bytes(onnx::model(g, 11))), "y/axes: Squeeze(x, y/axes/axes)\ny: Squeeze(y/axes, y/axes_2)\n");
}

TEST(OnnxRulesValues, WhatIsRefused) {
  const auto refused = [](const Node& node, std::int64_t opset, std::vector<std::string> words) {
    words.push_back(node.op + " (opset ");
    expect_error([&] { import_node(node, opset); }, words, words[0]);
  };
  refused({"BatchNormalization", {"x", "w", "w", "w", "w"}, {"y"}, {attribute("spatial", 0)}}, 7, {"spatial=0"});
  refused({"BatchNormalization", {"x", "w", "w", "w", "w"}, {"", "y"}}, 14, {"output 1 is for training"});
  refused({"Dropout", {"x"}, {"", "y"}}, 7, {"mask"});
  refused({"ConstantOfShape", {"i"}, {"y"}, {tensor_attribute("value", floats("", {2}, {1, 2}))}}, 9, {"one number"});
  refused({"Resize", {"x", "mixed"}, {"y"}}, 10, {"nearest element, upwards along one axis and downwards"});
  refused({"Resize", {"x", "up"}, {"y"}, {attribute("mode", "cubic")}}, 10, {"nearest or linear, got cubic"});
  refused({"Upsample", {"x"}, {"y"}}, 9, {"expected 2 inputs"});
  refused({"GroupNormalization", {"x", "w", "b"}, {"y"}}, 18, {"num_groups"});
  refused({"Clip", {"x"}, {"y"}, {attribute("min", "0")}}, 7, {"attribute min: expected a number"});
  refused({"Squeeze", {"x"}, {"y"}, {attribute("axes", 1)}}, 7, {"attribute axes: expected whole numbers"});
}

}  // namespace
}  // namespace lamina::test::onnx::rules_test
