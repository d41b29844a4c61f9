#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "lamina/graph/model.h"
#include "support/file_test.h"

namespace lamina::test {

/// Sets `tensor` to values of that mean and deviation, uniform, the same on every machine: those of a counter that
/// begins at a number of the tensor's own.
inline void draw(Tensor& tensor, std::uint32_t seed, double mean, double deviation) {
  const float scale = static_cast<float>(deviation * std::sqrt(12.0) / 4294967296.0);
  const float least = static_cast<float>(mean - deviation * std::sqrt(3.0));
  std::uint32_t i = seed * 0x9E3779B1u;
  for (float& value : tensor.values<float>()) {
    std::uint32_t h = i++;
    h = (h ^ h >> 16) * 0x7FEB352Du;
    h = (h ^ h >> 15) * 0x846CA68Bu;
    value = least + static_cast<float>(h ^ h >> 16) * scale;
  }
}

/// A tensor of golden/structures: "~[shape] mean deviation", or "type[shape] values".
inline Tensor tensor_of(const std::string& text, std::uint32_t seed) {
  const std::size_t begin = text.find('['), end = text.find(']');
  std::vector<std::int64_t> extents;
  std::istringstream shape(text.substr(begin + 1, end - begin - 1)), numbers(text.substr(end + 1));
  for (std::string extent; std::getline(shape, extent, ',');) extents.push_back(std::stoll(extent));
  if (text[0] == '~') {
    Tensor tensor{Shape(extents)};
    double mean = 0, deviation = 0;
    numbers >> mean >> deviation;
    draw(tensor, seed, mean, deviation);
    return tensor;
  }
  const auto filled = [&]<class T>(T last) {
    std::vector<T> values(static_cast<std::size_t>(Shape(extents).numel()));
    for (T& value : values) {
      if (T next{}; numbers >> next) last = next;  // one stands for all
      value = last;
    }
    return Tensor::from(values, Shape(extents));
  };
  const DType dtype = *find_dtype(text.substr(0, begin));
  const bool real = dtype == DType::f32 || dtype == DType::f64;
  return real ? filled(0.0).to(dtype) : filled(std::int64_t{0}).to(dtype);
}

/// The network of golden/structures/<name>.jsonl, with drawn weights. make_golden_structures.py says how it is written.
inline Graph structured_network(const std::string& name) {
  using Json = nlohmann::ordered_json;
  std::istringstream lines(
      read_file(std::filesystem::path(LAMINA_TEST_DATA) / "golden" / "structures" / (name + ".jsonl")));
  std::string line;
  std::getline(lines, line);
  Json root = Json::parse(line), nodes = Json::array();
  Weights weights;
  std::uint32_t seed = 0;
  const auto constant = [&](const std::string& constant_name, const std::string& text) {
    weights.set(constant_name, tensor_of(text, ++seed));
    nodes.push_back({{"name", constant_name}, {"op", "Constant"}, {"inputs", Json::array()}});
  };
  while (std::getline(lines, line)) {
    const Json parts = Json::parse(line);
    const auto node = parts[0].get<std::string>();
    if (parts[1].is_string()) {
      constant(node, parts[1].get<std::string>());
      continue;
    }
    std::vector<std::string> inputs;
    for (const Json& input : parts[1]) {
      inputs.push_back(input.get<std::string>());
      if (inputs.back().find('[') == std::string::npos) continue;
      const std::string own = node + '_' + std::to_string(inputs.size() - 1);
      constant(own, inputs.back());
      inputs.back() = own;
    }
    nodes.push_back({{"name", node}, {"op", node.substr(0, node.rfind('_'))}, {"inputs", inputs}, {"attrs", parts[2]}});
    if (parts.size() < 4) continue;
    for (const auto& [parameter, text] : parts[3].items()) {
      weights.set(node + '.' + parameter, tensor_of(text.get<std::string>(), ++seed));
    }
  }
  root["version"] = 1;
  root["nodes"] = nodes;
  weights.metadata()["lamina.graph"] = root.dump();
  return std::move(model_from(weights).graph);
}

}  // namespace lamina::test
