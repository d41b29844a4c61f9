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

/// An input's rows, in bytes.
struct JoinedRows {
  std::int64_t width = 0;  ///< of what is taken of each
  std::int64_t pitch = 0;  ///< from one to the next
};

/// Inputs [rows, parts[i].width] beside each other in an output whose rows lie `pitch` bytes apart.
struct ConcatRows {
  std::int64_t rows = 1, pitch = 0;
  std::vector<JoinedRows> parts;
};
inline ConcatRows concat_rows(const ConcatProblem& problem, const Preparation& p) {
  ConcatRows result;
  const auto size = static_cast<std::int64_t>(size_of(p.input().format.dtype));
  for (const View& input : p.inputs) {
    const auto [shape, dim] = stored(input.shape, input.format.layout, problem.dim);
    result.rows = extent_product(shape, 0, dim);
    const std::int64_t width = extent_product(shape, dim, static_cast<int>(shape.rank())) * size;
    result.parts.push_back({width, input.is_slice() ? input.channels * size : width});
    result.pitch += width;
  }
  if (p.output().is_slice()) result.pitch = p.output().channels * size;
  return result;
}

/// Whether rows of bytes can be copied: whatever they stand for, in one format; slices are of pixels.
inline bool joins_rows(const ConcatProblem& problem, const Preparation& p) {
  return p.keeps_format() && (!p.has_slices() || (problem.dim == 1 && p.input().format.layout == Layout::nhwc));
}

}  // namespace lamina::detail
