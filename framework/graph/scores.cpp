#include "lamina/graph/scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "lamina/base/error.h"
#include "lamina/cpu/softmax.h"

namespace lamina {
namespace {

void require_scores(std::string_view what, const Tensor& tensor) {
  if (!tensor.defined() || tensor.dtype() != DType::f32 || tensor.shape().rank() == 0)
    detail::fail(what, ": expected f32 [..., classes], got ", tensor.description());
}

}  // namespace

Tensor softmax(const Tensor& logits) {
  require_scores("softmax", logits);
  const Tensor host = logits.to(Device::cpu());
  Tensor result(host.shape());
  const std::int64_t classes = host.shape()[-1];
  if (host.numel() == 0) return result;
  ThreadPool pool(1);
  cpu::softmax(cpu::softmax_kernels().front(), SoftmaxKind::softmax, host.values<float>().data(),
               result.values<float>().data(), host.numel() / classes, classes, 1, pool);
  return result;
}

Scores scores_of(const Graph& graph) {
  // What leaves the numbers, or the order of them and what they mean, as they are.
  constexpr std::string_view passing[] = {"Cast",    "CastLike", "Clip",     "DequantizeLinear", "Dropout",
                                          "Flatten", "Identity", "Reshape",  "QuantizeLinear",   "Squeeze",
                                          "dropout", "flatten",  "Unsqueeze"};
  for (int at = graph.outputs().empty() ? -1 : graph.outputs()[0]; at >= 0;) {
    const Graph::Node& node = graph.nodes()[static_cast<std::size_t>(at)];
    const std::string_view op = node.module == nullptr ? "" : node.module->op();
    if (op == "softmax" || op == "Softmax") return Scores::probabilities;
    if (op == "sigmoid" || op == "Sigmoid" || op == "HardSigmoid") return Scores::independent;
    if (std::ranges::find(passing, op) == std::end(passing)) break;
    at = node.inputs.empty() ? -1 : node.inputs[0];
  }
  return Scores::logits;
}

std::int64_t scores_in(const Shape& output) {
  std::int64_t numbers = 1;
  for (int d = 1; d < static_cast<int>(output.rank()); ++d) {
    if (numbers != 1 && output[d] != 1) return 0;
    numbers *= output[d];
  }
  return output.rank() < 2 ? 0 : numbers;
}

Tensor class_scores(const Tensor& output, Scores scores) {
  if (!output.defined() || !is_activation(output.dtype()) || scores_in(output.shape()) == 0)
    detail::fail("expected scores f32 [N, classes], got ", output.description());
  const std::int64_t count = scores_in(output.shape());
  const Tensor numbers = output.to(Device::cpu()).to(DType::f32).view({output.shape()[0], count});
  if (count == 1 && scores == Scores::independent) {
    std::vector<float> both;
    for (const float p : numbers.values<float>()) both.insert(both.end(), {1 - p, p});
    return Tensor::from(both, {numbers.shape()[0], 2});
  }
  return scores == Scores::logits && count > 1 ? softmax(numbers) : numbers;
}

std::vector<Scored> top_k(const Tensor& scores, int k) {
  require_scores("top_k", scores);
  if (k < 0) detail::fail("top_k: expected a k of 0 or more, got ", k);
  if (scores.numel() != scores.shape()[-1])
    detail::fail("top_k: expected the scores of one image, got ", scores.description(), "; take slices of a batch");
  const Tensor host = scores.to(Device::cpu());
  const std::span<const float> values = host.values<float>();
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  // Comparisons with NaN are false, which would make the order none.
  const auto before = [&](int a, int b) {
    const float x = values[static_cast<std::size_t>(a)], y = values[static_cast<std::size_t>(b)];
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) == std::isnan(y) ? a < b : std::isnan(y);
    return x != y ? x > y : a < b;
  };
  const auto count = std::min(static_cast<std::size_t>(k), order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(), before);
  std::vector<Scored> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back({order[i], values[static_cast<std::size_t>(order[i])]});
  return result;
}

}  // namespace lamina
