#include "lamina/graph/scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lamina/base/error.h"
#include "lamina/cpu/softmax.h"

namespace lamina {
namespace {

void require_scores(std::string_view what, const Tensor& tensor) {
  if (!tensor.defined() || tensor.dtype() != DType::f32 || tensor.shape().rank() == 0) {
    detail::fail(what, ": expected f32 [..., classes], got ", tensor.description());
  }
}

}  // namespace

Tensor softmax(const Tensor& logits) {
  require_scores("softmax", logits);
  const Tensor host = logits.to(Device::cpu());
  Tensor result(host.shape());
  const std::int64_t classes = host.shape()[-1];
  if (host.numel() == 0) return result;
  ThreadPool pool(1);
  cpu::softmax(SoftmaxKind::softmax, host.values<float>().data(), result.values<float>().data(), host.numel() / classes,
               classes, 1, pool);
  return result;
}

std::vector<Scored> top_k(const Tensor& scores, int k) {
  require_scores("top_k", scores);
  if (k < 0) detail::fail("top_k: expected a k of 0 or more, got ", k);
  if (scores.numel() != scores.shape()[-1]) {
    detail::fail("top_k: expected the scores of one image, got ", scores.description(), "; take slices of a batch");
  }
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
