#pragma once

#include <cstdint>
#include <vector>

#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

/// Activations as kernels that work along one dimension see them.
namespace lamina::detail {

/// The extents in the order in which they lie in memory, and where dimension `dim` is among them.
struct StoredShape {
  Shape shape;
  int dim;
};
inline StoredShape stored(const Shape& shape, Layout layout, int dim) {
  if (layout != Layout::nhwc) return {shape, dim};
  constexpr int place[] = {0, 3, 1, 2};
  return {{shape[0], shape[2], shape[3], shape[1]}, place[dim]};
}

/// The product of extents [first, last) of a shape whose batch is known.
inline std::int64_t extent_product(const Shape& shape, int first, int last) {
  return Shape(shape.extents().subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)))
      .numel();
}

/// [outer, extent, inner] with the softmax along the middle.
struct SoftmaxExtents {
  std::int64_t outer = 1, extent = 1, inner = 1;
};
inline SoftmaxExtents softmax_extents(const SoftmaxProblem& problem, const Preparation& p) {
  const auto [shape, dim] = stored(p.input().shape, p.input().format.layout, problem.dim);
  return {extent_product(shape, 0, dim), shape[dim], extent_product(shape, dim + 1, static_cast<int>(shape.rank()))};
}

/// Inputs [rows, widths[i]] beside each other in an output [rows, pitch].
struct ConcatExtents {
  std::int64_t rows = 1, pitch = 0;
  std::vector<std::int64_t> widths;
};
inline ConcatExtents concat_extents(const ConcatProblem& problem, const Preparation& p) {
  ConcatExtents result;
  for (const View& input : p.inputs) {
    const auto [shape, dim] = stored(input.shape, input.format.layout, problem.dim);
    result.rows = extent_product(shape, 0, dim);
    result.widths.push_back(extent_product(shape, dim, static_cast<int>(shape.rank())));
    result.pitch += result.widths.back();
  }
  return result;
}

}  // namespace lamina::detail
