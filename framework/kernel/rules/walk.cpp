#include "lamina/kernel/rules/walk.h"

#include <algorithm>
#include <numeric>

namespace lamina::detail {

Strides strides_of(const View& view) {
  if (view.is_strided()) {
    Strides strides{};
    for (std::size_t dim = 0; dim < view.strides.rank(); ++dim) strides[dim] = view.strides[static_cast<int>(dim)];
    return strides;
  }
  Strides strides{};
  std::int64_t stride = 1;
  const std::vector<int> order = memory_order(view);
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const int dim = *at;
    strides[static_cast<std::size_t>(dim)] = stride;
    stride *= dim == 1 && view.is_slice() ? view.channels : view.shape[dim];
  }
  return strides;
}

std::vector<int> memory_order(const View& view) {
  if (view.format.layout == Layout::nhwc && view.shape.rank() == 4) return {0, 2, 3, 1};
  std::vector<int> order(view.shape.rank());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::optional<Gaps> gaps_of(const View& view) {
  const Strides strides = strides_of(view);
  Gaps gaps = {1, 0};
  std::int64_t next = 1;  // where one more dimension without a gap goes on
  const std::vector<int> order = memory_order(view);
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    const std::int64_t extent = view.shape[*dim], stride = strides[static_cast<std::size_t>(*dim)];
    if (extent == 1) continue;
    if (stride != next && (gaps.pitch != 0 || stride < next)) return std::nullopt;
    if (stride != next) gaps.pitch = stride;
    if (gaps.pitch == 0) gaps.row *= extent;
    next = stride * extent;
  }
  if (gaps.pitch == 0) gaps.pitch = gaps.row;
  return gaps;
}

Strides broadcast_strides(const View& view, const Shape& shape) {
  const Strides own = strides_of(view);
  const std::size_t missing = shape.rank() - view.shape.rank();
  Strides strides{};
  for (std::size_t dim = missing; dim < shape.rank(); ++dim) {
    const bool one_for_all = view.shape[static_cast<int>(dim - missing)] == 1;
    strides[dim] = one_for_all ? 0 : own[dim - missing];
  }
  return strides;
}

bool broadcasts(const Shape& shape, const Shape& output) {
  if (shape.rank() > output.rank()) return false;
  for (int dim = 1; dim <= static_cast<int>(shape.rank()); ++dim) {
    if (shape[-dim] != output[-dim] && shape[-dim] != 1) return false;
  }
  return true;
}

std::vector<WalkAxis> merged(std::vector<WalkAxis> axes) {
  std::vector<WalkAxis> result;
  for (WalkAxis& axis : axes) {
    if (axis.extent == 1) continue;
    if (!result.empty()) {
      WalkAxis& outer = result.back();
      bool one = true;
      for (std::size_t i = 0; i < axis.strides.size(); ++i) {
        one &= outer.strides[i] == axis.strides[i] * axis.extent;
      }
      if (one) {
        outer.extent *= axis.extent;
        outer.strides = std::move(axis.strides);
        continue;
      }
    }
    result.push_back(std::move(axis));
  }
  if (result.empty()) {
    result.push_back({.extent = 1, .strides = std::vector<std::int64_t>(axes.empty() ? 0 : axes[0].strides.size(), 0)});
  }
  return result;
}

std::vector<WalkAxis> broadcast_walk(const View& output, std::span<const View> inputs) {
  const Shape& shape = output.shape;
  std::vector<Strides> strides = {strides_of(output)};
  for (const View& input : inputs) strides.push_back(broadcast_strides(input, shape));
  std::vector<WalkAxis> axes;
  for (std::size_t dim = 0; dim < std::max<std::size_t>(shape.rank(), 1); ++dim) {
    WalkAxis axis = {.extent = dim < shape.rank() ? shape[static_cast<int>(dim)] : 1};
    for (const Strides& s : strides) axis.strides.push_back(s[dim]);
    axes.push_back(std::move(axis));
  }
  if (output.format.layout == Layout::nhwc && axes.size() == 4)
    std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
  return merged(std::move(axes));
}

std::int64_t count_of(std::span<const WalkAxis> axes) {
  std::int64_t count = 1;
  for (const WalkAxis& axis : axes) count *= axis.extent;
  return count;
}

}  // namespace lamina::detail
