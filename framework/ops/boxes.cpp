#include "lamina/ops/boxes.h"

#include <optional>
#include <vector>

namespace lamina::detail {
namespace {

/// Where a box begins whose every place the indices name, in order: [n0, n1, ..., depth], as exporters write x[:, 1:] =
/// y. Nothing if it is none.
std::optional<std::vector<std::int64_t>> box_of(const Tensor& indices, const Shape& to, int depth) {
  if (indices.shape().rank() != static_cast<std::size_t>(depth) + 1 || indices.numel() == 0) return std::nullopt;
  const Tensor wide = indices.to(DType::i64);
  const std::int64_t* at = wide.values<std::int64_t>().data();
  std::vector<std::int64_t> begin(at, at + depth), place(begin.size(), 0);
  for (int d = 0; d < depth; ++d) {
    std::int64_t& first = begin[static_cast<std::size_t>(d)];
    first += first < 0 ? to[d] : 0;
    if (first + indices.shape()[d] > to[d]) return std::nullopt;
  }
  for (std::int64_t row = 0; row < indices.numel() / depth; ++row) {
    for (int d = 0; d < depth; ++d, ++at) {
      const auto axis = static_cast<std::size_t>(d);
      if ((*at < 0 ? *at + to[d] : *at) != begin[axis] + place[axis]) return std::nullopt;
    }
    for (int d = depth - 1; d >= 0 && ++place[static_cast<std::size_t>(d)] == indices.shape()[d]; --d)
      place[static_cast<std::size_t>(d)] = 0;
  }
  return begin;
}

/// The data with the updates in a box: along one axis after the other, from the last, what is before and behind it is
/// joined to it.
int joined_around(Expansion& e, int data, int updates, const std::vector<std::int64_t>& begin) {
  const Shape to = e.shape(data), box = e.shape(updates);
  const auto part = [&](int node, int d, std::int64_t first, std::int64_t end) {
    return first == 0 && end == to[d] ? node : e.slice(node, d, first, end);
  };
  int result = updates;
  for (int d = static_cast<int>(begin.size()) - 1; d >= 0; --d) {
    const std::int64_t first = begin[static_cast<std::size_t>(d)], end = first + box[d];
    if (box[d] == to[d]) continue;
    int beside = data;
    for (int other = 0; other < d; ++other) {
      const std::int64_t from = begin[static_cast<std::size_t>(other)];
      beside = part(beside, other, from, from + box[other]);
    }
    std::vector<int> parts = {result};
    if (first > 0) parts.insert(parts.begin(), part(beside, d, 0, first));
    if (end < to[d]) parts.push_back(part(beside, d, end, to[d]));
    result = e.join(std::move(parts), d);
  }
  return result;
}

}  // namespace

int put_box(Expansion& e, int data, int indices, int updates) {
  const auto begin = box_of(e.known(indices), e.shape(data), static_cast<int>(e.shape(indices)[-1]));
  return begin ? joined_around(e, data, updates, *begin) : -1;
}

}  // namespace lamina::detail
