// Reading the messages of an .onnx file, right ones and wrong ones.

#include "lamina/base/content.h"
#include "lamina/onnx/file/proto.h"
#include "support/onnx_writer.h"

namespace lamina::test::onnx::decode_test {
namespace {

using namespace detail::onnx;

ModelProto decode_bytes(const std::string& bytes) {
  const TemporaryDirectory dir;
  write_file(dir / "x.onnx", bytes);
  return decode(detail::MappedFile::open(dir / "x.onnx"));
}

TEST(OnnxDecode, ModelAndGraph) {
  const Graph g{.nodes = {{"Relu", {"x", ""}, {"y"}, {}, "first", "own"}},
                .initializers = {floats("w", {2, 1}, {1.5f, 2})},
                .inputs = {value_info("x", {"N", 3, "", 4}, FLOAT16)}};
  const Message more = Message().message(14, Message().text(1, "key").text(2, "value")).message(8, opset(3, "own"));
  const ModelProto model = decode_bytes(onnx::model(g, 17, more));
  EXPECT_EQ(model.ir_version, 10);
  EXPECT_EQ(model.producer_name, "tests");
  ASSERT_EQ(model.opsets.size(), 2u);
  EXPECT_EQ(model.opsets[0].version, 17);
  EXPECT_EQ(model.opsets[1].domain, "own");
  ASSERT_EQ(model.metadata.size(), 1u);
  EXPECT_EQ(model.metadata[0].second, "value");
  ASSERT_EQ(model.graph.nodes.size(), 1u);
  const NodeProto& node = model.graph.nodes[0];
  EXPECT_EQ(node.op_type, "Relu");
  EXPECT_EQ(node.name, "first");
  EXPECT_EQ(node.domain, "own");
  EXPECT_EQ(node.inputs, (std::vector<std::string>{"x", ""}));
  EXPECT_EQ(node.outputs, std::vector<std::string>{"y"});
  ASSERT_EQ(model.graph.inputs.size(), 1u);
  const ValueInfoProto& input = model.graph.inputs[0];
  EXPECT_EQ(input.kind, "tensor");
  EXPECT_EQ(input.data_type, FLOAT16);
  ASSERT_EQ(input.dims.size(), 4u);
  EXPECT_EQ(input.dims[0].param, "N");
  EXPECT_TRUE(input.dims[1].known);
  EXPECT_FALSE(input.dims[2].known);
  EXPECT_EQ(input.dims[3].value, 4);
  ASSERT_EQ(model.graph.initializers.size(), 1u);
  EXPECT_EQ(model.graph.initializers[0].dims, (std::vector<std::int64_t>{2, 1}));
}

TEST(OnnxDecode, AttributesOfEveryType) {
  const Message texts = Message().text(1, "texts").text(9, "a").text(9, "b").integer(20, 8);
  const Message unpacked = Message().text(1, "unpacked").integer(8, 5).integer(8, -6).integer(20, 7);
  const Message untyped = Message().text(1, "untyped").number(2, 3);  // IR 1
  const Message zero = Message().text(1, "zero").integer(20, 2);      // proto3 leaves a 0 out
  const ModelProto model = decode_bytes(onnx::model(Graph{
      .nodes = {{"Op",
                 {},
                 {"y"},
                 {attribute("i", INT64_MIN), attribute("f", 0.5f), attribute("s", "text"),
                  attribute("is", std::vector<std::int64_t>{1, -2}), attribute("fs", std::vector<float>{3}), texts,
                  tensor_attribute("t", ints("", {7})), graph_attribute("g", graph({})), unpacked, untyped, zero,
                  reference("r", "outer", 2), Message().text(1, "types").message(15, {}).integer(20, 14)}}}}));
  const auto& attributes = model.graph.nodes.at(0).attributes;
  ASSERT_EQ(attributes.size(), 13u);
  EXPECT_EQ(std::get<std::int64_t>(attributes[0].value), INT64_MIN);
  EXPECT_EQ(std::get<float>(attributes[1].value), 0.5f);
  EXPECT_EQ(std::get<std::string>(attributes[2].value), "text");
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(attributes[3].value), (std::vector<std::int64_t>{1, -2}));
  EXPECT_EQ(std::get<std::vector<float>>(attributes[4].value), std::vector<float>{3});
  EXPECT_EQ(std::get<std::vector<std::string>>(attributes[5].value), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(std::get<std::shared_ptr<const TensorProto>>(attributes[6].value)->dims, std::vector<std::int64_t>{1});
  EXPECT_EQ(std::get<std::shared_ptr<const GraphProto>>(attributes[7].value)->outputs.size(), 1u);
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(attributes[8].value), (std::vector<std::int64_t>{5, -6}));
  EXPECT_EQ(std::get<float>(attributes[9].value), 3.0f);
  EXPECT_EQ(std::get<std::int64_t>(attributes[10].value), 0);
  EXPECT_EQ(attributes[11].ref_attr_name, "outer");
  EXPECT_EQ(attributes[11].value.index(), 0u);
  EXPECT_EQ(attributes[12].type, 14);
  EXPECT_EQ(attributes[12].value.index(), 0u);
}

TEST(OnnxDecode, Functions) {
  const Message function = Message()
                               .text(1, "Twice")
                               .text(4, "a")
                               .text(5, "b")
                               .text(6, "alpha")
                               .message(7, node({"Add", {"a", "a"}, {"b"}}))
                               .message(9, opset(18))
                               .text(10, "own")
                               .message(11, attribute("beta", 2.0f));
  const ModelProto model = decode_bytes(onnx::model(Graph{}, 18, Message().message(25, function)));
  ASSERT_EQ(model.functions.size(), 1u);
  const FunctionProto& f = model.functions[0];
  EXPECT_EQ(f.name, "Twice");
  EXPECT_EQ(f.domain, "own");
  EXPECT_EQ(f.inputs.at(0) + f.outputs.at(0) + f.attributes.at(0), "abalpha");
  EXPECT_EQ(f.nodes.at(0).op_type, "Add");
  EXPECT_EQ(f.opsets.at(0).version, 18);
  EXPECT_EQ(f.defaults.at(0).name, "beta");
}

TEST(OnnxDecode, UnknownFieldsArePassedOver) {
  const Message strange = Message()
                              .integer(900, 1)
                              .number(901, 2)
                              .text(902, "text")
                              .append(
                                  "\xb9\x38"
                                  "12345678");
  const std::string bytes = onnx::model(Graph{.nodes = {{"Relu", {"x"}, {"y"}, {strange}}}}, 18, strange);
  EXPECT_EQ(decode_bytes(bytes).graph.nodes.size(), 1u);
}

TEST(OnnxDecode, LooksLikeOnnx) {
  using detail::looks_like_onnx;
  EXPECT_TRUE(looks_like_onnx(as_bytes(onnx::model(Graph{}))));
  EXPECT_FALSE(looks_like_onnx(as_bytes("")));
  EXPECT_FALSE(looks_like_onnx(as_bytes("\x08\x01")));
  EXPECT_FALSE(looks_like_onnx(as_bytes("\x80\x02}q")));
  EXPECT_FALSE(looks_like_onnx(as_bytes("PK\3\4")));
}

/// A graph within an attribute of a node of a graph, and so on.
Message nested_graphs(int depth) {
  Message inner = graph({});
  for (int i = 0; i < depth; ++i) {
    inner = graph(Graph{.nodes = {{"If", {"c"}, {"y"}, {graph_attribute("then_branch", inner)}}}});
  }
  return inner;
}

TEST(OnnxDecode, NestedGraphs) {
  decode_bytes(onnx::model(nested_graphs(15)));
  expect_error([&] { decode_bytes(onnx::model(nested_graphs(3000))); }, {"x.onnx: graph, node 0", "nested too deep"});
}

TEST(OnnxDecode, WrongFilesAreRefused) {
  const std::string good = onnx::model(Graph{.nodes = {{"Relu", {"x"}, {"y"}}}});
  const auto refused = [](const std::string& bytes, std::vector<std::string> words) {
    words.push_back("x.onnx");
    expect_error([&] { decode_bytes(bytes); }, words, words[0]);
  };
  const auto with_node = [](const Message& node) { return onnx::model(Message().message(1, node)); };
  const auto with_attribute = [&](const Message& a) { return with_node(node({"Op", {}, {"y"}, {a}})); };
  refused("\x08\x0a", {"no graph"});
  refused(good + good, {"a second"});
  refused(good.substr(0, good.size() - 1), {"truncated"});
  refused(good.substr(0, 20), {"truncated", "field 7", "expected"});
  refused("\x08\xff\xff", {"truncated"});
  refused("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", {"at most 10 bytes"});
  refused("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", {"field 7", "bytes, got 0", "truncated"});
  refused("\x3a\x80\x80\x80\x80\x10", {"field 7", "expected 4294967296 bytes, got 0"});
  refused(std::string("\x00", 1), {"field number"});
  refused("\x0b", {"wire type"});
  refused("\x0f", {"wire type"});
  refused("not an onnx model at all", {"x.onnx"});
  refused(Message().text(1, "10").bytes(), {"field 1", "expected a whole number", "got a text"});
  refused(Message().integer(7, 1).bytes(), {"field 7", "expected a text or a message", "got a whole number"});
  refused(with_node(Message().text(1, "x")), {"graph, node 0", "op_type"});
  refused(with_node(Message().integer(4, 1)), {"graph, node 0", "field 4", "expected a text"});
  refused(with_attribute(Message().text(1, "a").text(2, "1")), {"attribute 0", "field 2", "number of 4 bytes"});
  refused(with_attribute(Message().text(1, "a").number(2, 1).integer(20, 2)), {"\"a\"", "type 2", "type 1"});
  refused(with_attribute(Message().text(1, "a").integer(20, 4)), {"expected a tensor", "\"a\""});
  refused(with_attribute(Message().text(1, "a").integer(20, 5)), {"expected a graph", "\"a\""});
  refused(with_attribute(Message().text(1, "a").integer(20, std::int64_t{1} << 40)), {"32 bits", "1099511627776"});
  refused(with_attribute(Message().text(1, "a").text(7, "12345")), {"field 7", "whole number of elements"});
  refused(with_attribute(Message().text(1, "a").text(8, "\x80")), {"attribute 0", "truncated"});
  refused(onnx::model(Graph{}, 18, Message().message(25, {})), {"function 0", "expected a name"});
}

TEST(OnnxDecode, HasALimitOfMessages) {
  std::string nodes;
  for (int i = 0; i < 4'000'001; ++i) nodes += std::string("\x5a\x00", 2);  // inputs of nothing
  expect_error([&] { decode_bytes(onnx::model(Message().append(nodes))); }, {"x.onnx: graph", "more nodes"});
}

TEST(OnnxDecode, Damaged) {
  const Graph g{.nodes = {{"Conv", {"x", "w", ""}, {"y"}, {attribute("pads", std::vector<std::int64_t>{1, 1, 1, 1})}}},
                .initializers = {floats("w", {2, 1}, {1.5f, 2}), header("i", INT32, {2}).packed(5, {1, 300})}};
  fuzz(onnx::model(g), [](const std::filesystem::path& path) { decode(detail::MappedFile::open(path)); });
}

}  // namespace
}  // namespace lamina::test::onnx::decode_test
