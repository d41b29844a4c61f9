// Networks: read, written and read again, compiled, run.

#include <algorithm>
#include <string>

#include "fuzz/run_network.h"
#include "fuzz/target.h"
#include "lamina/base/error.h"
#include "lamina/graph/graph_json.h"
#include "lamina/graph/model.h"
#include "lamina/onnx/onnx.h"

namespace lamina::fuzz {
namespace {

std::size_t variant_of(Bytes input) {
  std::size_t hash = input.size();
  for (const std::uint8_t byte : input) hash = hash * 31 + byte;
  return hash >> 3;
}

/// Parameters that nodes of these names find: small whole numbers. Batch norms keep what they are given.
Weights parameters() {
  Weights weights;
  const auto put = [&](const char* name, Shape shape, int modulus, int least) {
    Tensor tensor(shape);
    int i = 0;
    for (float& value : tensor.values<float>()) value = static_cast<float>(i++ * 3 % modulus + least);
    weights.set(name, tensor);
  };
  for (const char* name : {"c.weight", "c2.weight"}) put(name, {8, 3, 3, 3}, 5, -2);
  put("c.bias", {8}, 5, -2);
  put("d.weight", {8, 1, 3, 3}, 5, -2);
  put("e.weight", {4, 8, 1, 1}, 5, -2);
  put("e.bias", {4}, 3, 0);
  put("f.weight", {16, 2, 5, 5}, 3, -1);
  put("g.weight", {1, 1, 1, 1}, 2, 1);
  put("h.weight", {16, 16, 3, 3}, 3, -1);
  put("h.bias", {16}, 3, -1);
  put("k.weight", {2, 3, 7, 2}, 5, -2);
  put("b.weight", {8}, 2, 1);
  put("b.bias", {8}, 5, -2);
  put("b.running_mean", {8}, 3, -1);
  put("b.running_var", {8}, 1, 1);
  put("n.running_mean", {3}, 3, -1);
  put("n.running_var", {3}, 1, 1);
  put("l.weight", {10, 32}, 5, -2);
  put("l.bias", {10}, 5, -2);
  put("m.weight", {5, 10}, 5, -2);
  put("w", {3, 1, 1}, 3, 1);
  put("v", {8}, 3, -1);
  return weights;
}

}  // namespace

void graph(Bytes input) {
  static const Weights weights = parameters();
  try {
    const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
    Graph graph = detail::graph_from_json(text, weights);
    graph.load(weights);
    const std::string written = detail::graph_to_json(graph);
    if (detail::graph_to_json(detail::graph_from_json(written, weights)) != written) {
      broken("a graph that was written is read as it was");
    }
    run_network(graph, variant_of(input));
  } catch (const Error&) {
  }
}

void model(Bytes input) {
  set_input(input);
  try {
    const Model model = load_model(input_path);
    (void)to_weights(model);
    if (model.preprocess && model.preprocess->crop <= 64) {
      Preprocess settings = *model.preprocess;
      settings.resize = std::min(settings.resize, 1024);
      (void)preprocess(Image{5, 7, std::vector<std::uint8_t>(3 * 5 * 7, 9)}, settings);
    }
    (void)model.graph.summary();
    run_network(model.graph, variant_of(input));
  } catch (const Error&) {
  }
}

void onnx(Bytes input) {
  set_input(input);
  try {
    run_network(detail::load_onnx(detail::MappedFile::open(input_path)).graph, variant_of(input));
  } catch (const Error&) {
  }
}

}  // namespace lamina::fuzz
