#include "lamina/graph/networks.h"

#include <map>

#include "support/file_test.h"

namespace lamina::networks_test {
namespace {

using Lines = std::vector<std::string>;

Lines parameter_lines(const Graph& graph) {
  Lines lines;
  for (const Graph::Node& node : graph.nodes()) {
    if (node.module == nullptr) continue;
    for (const auto& p : node.module->parameters()) {
      lines.push_back(node.name + '.' + p.name + ' ' + p.shape.to_string());
    }
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::int64_t learned(const Graph& graph) {
  std::int64_t count = 0;
  for (const Graph::Node& node : graph.nodes()) {
    if (node.module == nullptr) continue;
    for (const auto& p : node.module->parameters()) count += p.name.starts_with("running_") ? 0 : p.shape.numel();
  }
  return count;
}

TEST(Networks, HaveTheirPublishedSizes) {
  EXPECT_EQ(learned(alexnet()), 61'100'840);
  EXPECT_EQ(learned(vgg16()), 138'357'544);
  EXPECT_EQ(learned(resnet18()), 11'689'512);
  EXPECT_EQ(learned(caffenet()), 60'965'224);
  EXPECT_EQ(learned(alexnet_original()), 60'965'224);
}

TEST(Networks, HaveTorchvisionsKeysAndShapes) {
  std::map<std::string, Lines> expected;
  std::ifstream file(std::string(LAMINA_TEST_DATA) + "/golden/network-keys.txt");
  for (std::string name, rest; file >> name && file.get() && std::getline(file, rest);) expected[name].push_back(rest);
  ASSERT_EQ(expected.size(), 3u);
  for (auto& [name, lines] : expected) {
    std::sort(lines.begin(), lines.end());
    EXPECT_EQ(parameter_lines(network(name)), lines) << name;
  }
}

TEST(Networks, EndInTheirClasses) {
  for (const std::string_view name : network_names()) {
    const Graph g = network(name, 7);
    ASSERT_EQ(g.outputs().size(), 1u);
    EXPECT_EQ(g.shapes(3)[static_cast<std::size_t>(g.outputs()[0])], (Shape{3, 7})) << name;
  }
  const auto extent = [](const Graph& g, std::string_view node) { return (*g.find(node)->shape)[2]; };
  EXPECT_EQ(extent(caffenet(), "conv1"), 55);
  EXPECT_EQ(extent(caffenet(), "pool5"), 6);
  EXPECT_EQ(extent(alexnet(), "features.0"), 55);
  EXPECT_EQ(extent(alexnet(), "features.12"), 6);
  test::expect_error([] { (void)network("alexnet2"); }, {"alexnet2", "caffenet", "vgg16"});
}

TEST(Networks, DifferInWhereTheNormStands) {
  const auto source = [](const Graph& g, std::string_view node) {
    return g.nodes()[static_cast<std::size_t>(g.find(node)->inputs[0])].name;
  };
  EXPECT_EQ(source(caffenet(), "norm1"), "pool1");
  EXPECT_EQ(source(alexnet_original(), "norm1"), "relu1");
}

}  // namespace
}  // namespace lamina::networks_test
