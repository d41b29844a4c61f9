#pragma once

#include <cstdint>

#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"
#include "lamina/kernel/rules/extents.h"

/// Products, lookups and scans as the kernels of both devices see them: plain numbers, to be handed over by value.
namespace lamina::detail {

/// c [batches, m, n] = alpha * a [m, k] b [k, n], each batch with operands of its own or shared ones.
struct MatMulExtents {
  static constexpr int max_batch_rank = 6;
  std::int64_t batches = 1, m = 1, n = 1, k = 1;
  std::int64_t a_row = 0, a_term = 0, b_term = 0, b_column = 0;  ///< elements from one to the next
  int batch_rank = 0;
  std::int64_t extents[max_batch_rank] = {}, a_strides[max_batch_rank] = {},
               b_strides[max_batch_rank] = {};  ///< innermost first
  double alpha = 1;

  struct Offsets {
    std::int64_t a, b;
  };
  /// Where the operands of a batch begin.
  constexpr Offsets operands(std::int64_t batch) const {
    Offsets at{0, 0};
    for (std::size_t d = 0; d < static_cast<std::size_t>(batch_rank); ++d) {
      const std::int64_t i = batch % extents[d];
      batch /= extents[d];
      at.a += i * a_strides[d];
      at.b += i * b_strides[d];
    }
    return at;
  }
};
MatMulExtents matmul_extents(const MatMulProblem& problem, const Preparation& p);
/// Whether the shapes are those of a product of matrices.
bool is_matmul(const MatMulProblem& problem, const Preparation& p);

/// Where the rows of a matrix for each image and head are, in elements; a row's elements are neighbours.
struct RowStrides {
  std::int64_t image = 0, head = 0, row = 0;

  constexpr std::int64_t at(std::int64_t n, std::int64_t h, std::int64_t l) const {
    return n * image + h * head + l * row;
  }
};

/// q [N, H, L, D], k [N, G, S, D], v [N, G, S, E], output [N, H, L, E].
struct AttentionExtents {
  std::int64_t images = 1, heads = 1, groups = 1, length = 1, positions = 1, depth = 1, width = 1;
  bool masked = false, causal = false;
  RowStrides q = {}, k = {}, v = {}, output = {};
  std::int64_t mask[4] = {};     ///< elements of the mask from one to the next of N, H, L and S
  std::int64_t mask_images = 1;  ///< image n has the mask of n % this
  std::int64_t past = 0;
  double scale = 1;

  /// Position l sees positions [0, this).
  constexpr std::int64_t seen(std::int64_t l) const {
    if (!causal || past >= positions) return positions;
    const std::int64_t end = l + 1 + past;
    return end < 0 ? 0 : end < positions ? end : positions;
  }
};
AttentionExtents attention_extents(const AttentionProblem& problem, const Preparation& p);
bool is_attention(const AttentionProblem& problem, const Preparation& p);

/// Elements picked or put by index. A "line" is what one index runs along.
///
/// nd and take: for each of `outer` batches, `places` indices (of `depth` components each) name slices of `inner`
/// elements among `reach`, the product of the selected extents.
/// elements: the coordinates of `indices`, of which the one of `dim` is replaced by the index.
struct IndexExtents {
  GatherKind kind = GatherKind::take;
  std::int64_t outer = 1, places = 1, inner = 1, reach = 1;
  int depth = 1;
  std::int64_t extents[Shape::max_rank] = {},
               strides[Shape::max_rank] = {};        ///< of the components: extent, slices per step
  int rank = 0, dim = 0;                             ///< elements: of the shapes
  std::int64_t index_extents[Shape::max_rank] = {};  ///< elements: outermost first
  std::int64_t data_strides[Shape::max_rank] = {};   ///< elements: of the data, in elements
};
IndexExtents gather_extents(const GatherProblem& problem, const Preparation& p);
IndexExtents scatter_extents(const ScatterProblem& problem, const Preparation& p);
bool is_gather(const GatherProblem& problem, const Preparation& p);
bool is_scatter(const ScatterProblem& problem, const Preparation& p);

/// [outer, extent, inner] of a shape that lies row-major, along `dim`.
struct LineExtents {
  std::int64_t outer = 1, extent = 1, inner = 1;
};
inline LineExtents line_extents(const Shape& shape, int dim) {
  return {extent_product(shape, 0, dim), shape[dim], extent_product(shape, dim + 1, static_cast<int>(shape.rank()))};
}

/// Whether every input and output is nchw without gaps.
bool all_plain_layout(const Preparation& p);

/// Whether the shapes are those of the problem; all but resample: in nchw, and the outputs' dtype is one that it has.
bool is_resample(const ResampleProblem& problem, const Preparation& p);
bool is_topk(const TopKProblem& problem, const Preparation& p);
bool is_grid_sample(const GridSampleProblem& problem, const Preparation& p);
/// The same with bins; the input and the output may be of any layout.
bool is_bins(const GridSampleProblem& problem, const Preparation& p);
bool is_cumulative(const CumulativeProblem& problem, const Preparation& p);

}  // namespace lamina::detail
