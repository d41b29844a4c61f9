#include "lamina/kernel/rules/lookup/lookup_extents.h"

#include <algorithm>

#include "lamina/kernel/rules/walk.h"

namespace lamina::detail {
namespace {

int rank(const Shape& shape) { return static_cast<int>(shape.rank()); }

bool is_index(DType dtype) { return dtype == DType::i64 || dtype == DType::i32; }

/// What stands before the last two extents.
Shape batch_of(const Shape& shape) { return Shape(shape.extents().first(shape.rank() - 2)); }

}  // namespace

bool all_plain_layout(const Preparation& p) {
  const auto plain = [](const View& view) { return view.format.layout == Layout::nchw; };
  return std::all_of(p.inputs.begin(), p.inputs.end(), plain) && std::all_of(p.outputs.begin(), p.outputs.end(), plain);
}

bool is_matmul(const MatMulProblem& problem, const Preparation& p) {
  if (p.inputs.size() != 2 || p.outputs.size() != 1 || !all_plain_layout(p)) return false;
  const Shape &a = p.inputs[0].shape, &b = p.inputs[1].shape, &c = p.output().shape;
  if (rank(a) < 2 || rank(b) < 2 || rank(c) < 2) return false;
  return c[-2] == a[problem.transpose_a ? -1 : -2] && c[-1] == b[problem.transpose_b ? -2 : -1] &&
         a[problem.transpose_a ? -2 : -1] == b[problem.transpose_b ? -1 : -2] && broadcasts(batch_of(a), batch_of(c)) &&
         broadcasts(batch_of(b), batch_of(c));
}

MatMulExtents matmul_extents(const MatMulProblem& problem, const Preparation& p) {
  const Shape &a = p.inputs[0].shape, &c = p.output().shape;
  MatMulExtents e;
  e.m = c[-2], e.n = c[-1], e.k = a[problem.transpose_a ? -2 : -1];
  e.a_row = problem.transpose_a ? 1 : e.k, e.a_term = problem.transpose_a ? e.m : 1;
  e.b_term = problem.transpose_b ? 1 : e.n, e.b_column = problem.transpose_b ? e.k : 1;
  e.alpha = problem.alpha;
  const auto a_strides = broadcast_strides(p.inputs[0], c), b_strides = broadcast_strides(p.inputs[1], c);
  for (int d = rank(c) - 3; d >= 0; --d) {
    const auto at = static_cast<std::size_t>(d), to = static_cast<std::size_t>(e.batch_rank);
    if (c[d] == 1) continue;
    e.batches *= c[d];
    // One step of this extent may be as many of the one within: then they are one.
    if (to > 0 && a_strides[at] == e.a_strides[to - 1] * e.extents[to - 1] &&
        b_strides[at] == e.b_strides[to - 1] * e.extents[to - 1]) {
      e.extents[to - 1] *= c[d];
      continue;
    }
    e.extents[to] = c[d], e.a_strides[to] = a_strides[at], e.b_strides[to] = b_strides[at];
    ++e.batch_rank;
  }
  // Batches that share b and follow each other in a are rows of one product.
  if (e.batch_rank == 1 && e.b_strides[0] == 0 && !problem.transpose_a && e.a_strides[0] == e.m * e.k) {
    e.m *= e.batches;
    e.batches = 1;
    e.batch_rank = 0;
  }
  return e;
}

namespace {

/// Whether elements along the last dimension are neighbours.
bool has_whole_rows(const View& view) { return !view.is_strided() || view.shape[-1] <= 1 || view.strides[-1] == 1; }

RowStrides row_strides(const View& view) {
  if (view.is_strided()) return {view.strides[0], view.strides[1], view.strides[2]};
  const std::int64_t row = view.shape[3], head = view.shape[2] * row;
  return {view.shape[1] * head, head, row};
}

}  // namespace

bool is_attention(const AttentionProblem&, const Preparation& p) {
  if (p.inputs.size() < 3 || p.inputs.size() > 4 || p.outputs.size() != 1 || !all_plain_layout(p)) return false;
  const Shape &q = p.inputs[0].shape, &k = p.inputs[1].shape, &v = p.inputs[2].shape, &o = p.output().shape;
  if (rank(q) != 4 || rank(k) != 4 || rank(v) != 4 || rank(o) != 4) return false;
  const bool fit = k[0] == q[0] && v[0] == q[0] && o[0] == q[0] && v[1] == k[1] && o[1] == q[1] && o[2] == q[2] &&
                   k[3] == q[3] && v[2] == k[2] && o[3] == v[3] && (q[1] == 0 || (k[1] > 0 && q[1] % k[1] == 0));
  const auto dtype = p.input().format.dtype;
  for (const View& view : p.inputs) {
    if (view.format.dtype != dtype) return false;
  }
  if (!fit || p.output().format.dtype != dtype) return false;
  if (!has_whole_rows(p.output()) || !std::all_of(p.inputs.begin(), p.inputs.begin() + 3, has_whole_rows)) return false;
  if (p.inputs.size() > 3 && p.inputs[3].is_strided()) return false;
  if (p.inputs.size() < 4) return true;
  const Shape& mask = p.inputs[3].shape;
  const bool repeated = rank(mask) == 4 && mask[0] > 0 && q[0] % mask[0] == 0;
  const Shape scores = {repeated ? mask[0] : q[0], q[1], q[2], k[2]};
  return broadcasts(mask, scores);
}

AttentionExtents attention_extents(const AttentionProblem& problem, const Preparation& p) {
  const Shape &q = p.inputs[0].shape, &k = p.inputs[1].shape, &v = p.inputs[2].shape;
  AttentionExtents e;
  e.images = q[0], e.heads = q[1], e.length = q[2], e.depth = q[3];
  e.groups = k[1], e.positions = k[2], e.width = v[3];
  e.q = row_strides(p.inputs[0]), e.k = row_strides(p.inputs[1]), e.v = row_strides(p.inputs[2]);
  e.output = row_strides(p.output());
  e.causal = problem.causal, e.past = problem.past, e.scale = problem.scale;
  e.masked = p.inputs.size() > 3;
  if (e.masked) {
    const auto strides = broadcast_strides(p.inputs[3], q);
    std::copy_n(strides.begin(), 4, e.mask);
    if (rank(p.inputs[3].shape) == 4) e.mask_images = std::max<std::int64_t>(p.inputs[3].shape[0], 1);
  }
  return e;
}

namespace {

IndexExtents nd_extents(const Shape& data, const Shape& indices, int batch_dims) {
  IndexExtents e;
  e.kind = GatherKind::nd;
  e.depth = static_cast<int>(indices[-1]);
  e.outer = extent_product(data, 0, batch_dims);
  e.places = extent_product(indices, batch_dims, rank(indices) - 1);
  e.inner = extent_product(data, batch_dims + e.depth, rank(data));
  for (int d = e.depth - 1; d >= 0; --d) {
    e.extents[static_cast<std::size_t>(d)] = data[batch_dims + d];
    e.strides[static_cast<std::size_t>(d)] = e.reach;
    e.reach *= data[batch_dims + d];
  }
  return e;
}

IndexExtents element_extents(const Shape& data, const Shape& indices, int dim) {
  IndexExtents e;
  e.kind = GatherKind::elements;
  e.rank = rank(data), e.dim = dim;
  e.reach = e.extents[0] = data[dim];
  e.strides[0] = 1;
  std::int64_t step = 1;
  for (int d = e.rank - 1; d >= 0; --d) {
    const auto at = static_cast<std::size_t>(d);
    e.index_extents[at] = indices[d];
    e.data_strides[at] = step;
    step *= data[d];
  }
  return e;
}

/// Whether the indices lie within the data but for `dim`.
bool elements_fit(const Shape& data, const Shape& indices, int dim) {
  if (rank(data) != rank(indices) || dim < 0 || dim >= rank(data)) return false;
  for (int d = 0; d < rank(data); ++d) {
    if (d != dim && indices[d] > data[d]) return false;
  }
  return true;
}

bool same_extents(const Shape& a, int first_a, const Shape& b, int first_b, int count) {
  for (int i = 0; i < count; ++i) {
    if (a[first_a + i] != b[first_b + i]) return false;
  }
  return true;
}

/// Whether `selected` [b..., i..., rest...] is what `indices` [b..., i..., K] select of `data`.
bool nd_fits(const Shape& data, const Shape& indices, const Shape& selected, int b) {
  if (rank(indices) < 1 || b < 0 || b >= rank(indices) || b > rank(data)) return false;
  const std::int64_t k = indices[-1];
  if (k > rank(data) - b) return false;
  const int depth = static_cast<int>(k), rest = rank(data) - b - depth;
  return rank(selected) == rank(indices) - 1 + rest && same_extents(data, 0, indices, 0, b) &&
         same_extents(selected, 0, indices, 0, rank(indices) - 1) &&
         same_extents(selected, rank(indices) - 1, data, b + depth, rest);
}

}  // namespace

bool is_gather(const GatherProblem& problem, const Preparation& p) {
  if (p.inputs.size() != 2 || p.outputs.size() != 1 || !all_plain_layout(p)) return false;
  if (!is_index(p.inputs[1].format.dtype) || p.input().format.dtype != p.output().format.dtype) return false;
  const Shape &data = p.inputs[0].shape, &indices = p.inputs[1].shape, &output = p.output().shape;
  switch (problem.kind) {
    case GatherKind::take: {
      const int dim = problem.dim, after = rank(data) - 1 - dim;
      return dim >= 0 && dim < rank(data) && rank(output) == rank(data) - 1 + rank(indices) &&
             same_extents(output, 0, data, 0, dim) && same_extents(output, dim, indices, 0, rank(indices)) &&
             same_extents(output, dim + rank(indices), data, dim + 1, after);
    }
    case GatherKind::elements: return elements_fit(data, indices, problem.dim) && output == indices;
    case GatherKind::nd: return nd_fits(data, indices, output, problem.batch_dims);
  }
  return false;
}

IndexExtents gather_extents(const GatherProblem& problem, const Preparation& p) {
  const Shape &data = p.inputs[0].shape, &indices = p.inputs[1].shape;
  if (problem.kind == GatherKind::elements) return element_extents(data, indices, problem.dim);
  if (problem.kind == GatherKind::nd) return nd_extents(data, indices, problem.batch_dims);
  IndexExtents e;
  e.outer = extent_product(data, 0, problem.dim);
  e.places = indices.numel();
  e.inner = extent_product(data, problem.dim + 1, rank(data));
  e.reach = e.extents[0] = data[problem.dim];
  e.strides[0] = 1;
  return e;
}

bool is_scatter(const ScatterProblem& problem, const Preparation& p) {
  if (p.inputs.size() != 3 || p.outputs.size() != 1 || !all_plain_layout(p)) return false;
  const DType dtype = p.input().format.dtype;
  if (!is_index(p.inputs[1].format.dtype) || p.inputs[2].format.dtype != dtype || p.output().format.dtype != dtype) {
    return false;
  }
  const Shape &data = p.inputs[0].shape, &indices = p.inputs[1].shape, &updates = p.inputs[2].shape;
  if (p.output().shape != data) return false;
  if (problem.kind == GatherKind::elements) return elements_fit(data, indices, problem.dim) && updates == indices;
  return problem.kind == GatherKind::nd && nd_fits(data, indices, updates, 0);
}

IndexExtents scatter_extents(const ScatterProblem& problem, const Preparation& p) {
  const Shape &data = p.inputs[0].shape, &indices = p.inputs[1].shape;
  return problem.kind == GatherKind::elements ? element_extents(data, indices, problem.dim)
                                              : nd_extents(data, indices, 0);
}

bool is_resample(const ResampleProblem& problem, const Preparation& p) {
  if (p.inputs.size() != 1 || p.outputs.size() != 1 || p.input().format.dtype != p.output().format.dtype) return false;
  const Shape &in = p.input().shape, &out = p.output().shape;
  if (in.rank() != out.rank()) return false;
  unsigned listed = 0;
  for (const ResampleProblem::Axis& axis : problem.axes) {
    if (axis.dim < 0 || axis.dim >= rank(in) || (listed >> axis.dim & 1u) != 0 || axis.taps < 1) return false;
    listed |= 1u << axis.dim;
    const auto taps = static_cast<std::size_t>(out[axis.dim]) * static_cast<std::size_t>(axis.taps);
    if (axis.indices.size() != taps || axis.weights.size() != taps || (taps > 0 && in[axis.dim] == 0)) return false;
  }
  for (int d = 0; d < rank(in); ++d) {
    if ((listed >> d & 1u) == 0 && in[d] != out[d]) return false;
  }
  return true;
}

namespace {

/// Whether the output is the input but for `extent` along `dim`.
bool along(const Preparation& p, int dim, std::int64_t extent) {
  if (p.inputs.size() != 1 || p.outputs.size() != 1 || !all_plain_layout(p)) return false;
  if (dim < 0 || dim >= rank(p.input().shape)) return false;
  Shape expected = p.input().shape;
  expected.set(dim, extent);
  return expected == p.output().shape;
}

}  // namespace

bool is_topk(const TopKProblem& problem, const Preparation& p) {
  return problem.k >= 0 && along(p, problem.dim, problem.k) && problem.k <= p.input().shape[problem.dim] &&
         p.output().format.dtype == DType::i64;
}

bool is_cumulative(const CumulativeProblem& problem, const Preparation& p) {
  return !p.inputs.empty() && problem.dim >= 0 && problem.dim < rank(p.input().shape) &&
         along(p, problem.dim, p.input().shape[problem.dim]) && p.input().format.dtype == p.output().format.dtype;
}

bool is_grid_sample(const GridSampleProblem& problem, const Preparation& p) {
  if (p.inputs.size() != 2 || p.outputs.size() != 1 || !all_plain_layout(p)) return false;
  if (p.input().format.dtype != p.output().format.dtype) return false;
  const Shape &in = p.inputs[0].shape, &grid = p.inputs[1].shape, &out = p.output().shape;
  const int dims = rank(in) - 2;
  if ((dims != 2 && dims != 3) || rank(grid) != rank(in) || rank(out) != rank(in) || grid[-1] != dims) return false;
  return (dims == 2 || problem.mode != GridMode::cubic) && in[0] == grid[0] && out[0] == in[0] && out[1] == in[1] &&
         same_extents(out, 2, grid, 1, dims);
}

bool is_bins(const GridSampleProblem& problem, const Preparation& p) {
  if (!problem.bins || p.inputs.size() != 4 || p.outputs.size() != 1) return false;
  const Shape &in = p.inputs[0].shape, &out = p.output().shape;
  const auto numbers = [&](std::size_t i, const Shape& shape) {
    return p.inputs[i].shape == shape && p.inputs[i].format == Format{.dtype = DType::i64};
  };
  return rank(in) == 4 && rank(out) == 4 && in.numel() > 0 && out[1] == in[1] && out[2] > 0 && out[3] > 0 &&
         p.inputs[1].shape == Shape{out[0], 4} && numbers(2, {out[0]}) && numbers(3, {1}) && !p.has_slices() &&
         !p.has_strides() && !p.has_codes() && p.input().format.dtype == p.output().format.dtype;
}

}  // namespace lamina::detail
