// Products of matrices.

#include "lamina/ops/rows/products.h"

#include <algorithm>
#include <numeric>

#include "lamina/layers/elementwise.h"
#include "lamina/layers/linear.h"
#include "lamina/ops/parts.h"
#include "lamina/ops/rows/quantized.h"
#include "lamina/ops/table.h"
#include "lamina/tensor/constants.h"
#include "lamina/tensor/matrices.h"

namespace lamina::detail {
namespace {

/// factor times a matrix of f32, its rows as columns if it is to be turned.
Tensor scaled(const Tensor& matrix, bool turned, double factor) {
  if (factor == 1) {
    return !turned ? matrix
                   : derived(Packing("turned"), {matrix}, {matrix.shape()[1], matrix.shape()[0]}, DType::f32,
                             [&](Tensor& to) { to = transposed(matrix); });
  }
  Tensor result = turned ? transposed(matrix) : matrix.clone();
  for (float& value : result.values<float>()) value = static_cast<float>(factor * static_cast<double>(value));
  return result;
}

/// A known matrix of floats with something in it, of which dimensions of 1 may stand before the last two.
bool is_weight(const Expansion& e, int b, int rank_of_a) {
  const Shape& shape = e.shape(b);
  if (!e.known(b).defined() || !is_float(e.dtype(b)) || shape.rank() < 2 || shape.numel() == 0) return false;
  const auto before = shape.extents().first(shape.rank() - 2);
  return std::ranges::all_of(before, [](std::int64_t extent) { return extent == 1; }) &&
         static_cast<int>(shape.rank()) <= std::max(rank_of_a, 2);
}

int mat_mul(Expansion& e) { return matmul(e, e.input(0), e.input(1)); }

/// ONNX Runtime's: of operands the last two extents are swapped, or before that the first one is put before the last;
/// and a factor.
int fused_mat_mul(Expansion& e) {
  const double alpha = e.attributes().number("alpha", 1);
  const auto operand = [&](int i, std::string_view turns, std::string_view batch_turns) {
    const int node = e.input(i), rank = e.rank(node);
    const bool turned = e.attributes().boolean(turns, false), batch_turned = e.attributes().boolean(batch_turns, false);
    if (rank < 2) return node;
    std::vector<int> order(static_cast<std::size_t>(rank));
    std::iota(order.begin(), order.end(), 0);
    if (batch_turned) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
    if (turned) std::swap(order[order.size() - 2], order.back());
    return e.permute(node, order);
  };
  const int product = matmul(e, operand(0, "transA", "transBatchA"), operand(1, "transB", "transBatchB"));
  return alpha == 1 ? product : e.pointwise(Pointwise::mul, product, alpha);
}

/// C as a bias of `columns` elements; undefined if it is something else.
Tensor as_bias(const Expansion& e, int c, std::int64_t columns, double beta) {
  const Tensor& known = e.known(c);
  if (!known.defined() || (known.numel() != 1 && known.numel() != columns)) return {};
  if (known.numel() != 1 && known.shape()[-1] != columns) return {};
  const std::vector<double> values = to_numbers(known);
  Tensor bias({columns});
  for (std::size_t i = 0; i < static_cast<std::size_t>(columns); ++i)
    bias.values<float>()[i] = static_cast<float>(beta * values[values.size() == 1 ? 0 : i]);
  return bias;
}

int gemm(Expansion& e) {
  const bool turn_a = e.attributes().boolean("transA", false), turn_b = e.attributes().boolean("transB", false);
  const double alpha = e.attributes().number("alpha", 1), beta = e.attributes().number("beta", 1);
  int a = e.input(0);
  const int b = e.input(1);
  const DType dtype = e.dtype(a);
  if (e.rank(a) != 2 || e.rank(b) != 2) e.refuse("expected matrices, got ", e.shape(a), " and ", e.shape(b));
  bool summand = e.has(2) && beta != 0;
  int product = 0;
  if (is_float(dtype)) a = as_f32(e, a);
  if (is_float(dtype) && is_weight(e, b, 2)) {
    const Tensor weight = scaled(e.known(b).to(DType::f32), !turn_b, alpha);
    if (turn_a) a = e.permute(a, std::vector<int>{1, 0});
    const Tensor bias = summand ? as_bias(e, e.input(2), weight.shape()[0], beta) : Tensor();
    summand &= !bias.defined();
    EightBitWeights eight;
    if (alpha == 1 && (!summand || bias.defined()))
      eight = eight_bits(e, b, bias.defined() && beta == 1 ? e.input(2) : -1, !turn_b);
    product = linear(e, a, weight, bias, eight);
  } else {
    const int other = is_float(dtype) ? as_f32(e, b) : b;
    if (!is_float(dtype) && (alpha != 1 || beta != 1)) e.refuse("whole numbers can have no alpha and beta");
    product = multiply(e, a, other, {.transpose_a = turn_a, .transpose_b = turn_b, .alpha = alpha});
  }
  if (summand) {
    const Shape to = e.shape(product);
    int c = e.cast(e.input(2), e.dtype(product));
    if (beta != 1) c = e.pointwise(Pointwise::mul, c, beta);
    product = e.pointwise(Pointwise::add, {product, c});
    if (e.shape(product) != to) e.refuse("C ", e.shape(c), " does not broadcast to ", to);
  }
  return e.cast(product, dtype);
}

constexpr OpRow product_rows[] = {{"Attention", attention},
                                  {"Einsum", einsum},
                                  {"FusedMatMul", fused_mat_mul},
                                  {"Gemm", gemm},
                                  {"MatMul", mat_mul},
                                  {"MultiHeadAttention", multi_head_attention},
                                  {"RotaryEmbedding", rotary_embedding}};

}  // namespace

int multiply(Expansion& e, int a, int b, const MatMulProblem& problem) {
  const Shape from_a = e.shape(a), from_b = e.shape(b);
  const auto before_a = from_a.extents().first(from_a.rank() - 2), before_b = from_b.extents().first(from_b.rank() - 2);
  const Shape batches[] = {Shape(before_a), Shape(before_b)};
  std::vector<std::int64_t> to = extents_of(broadcast(e.op(), batches));
  to.push_back(from_a[problem.transpose_a ? -1 : -2]);
  to.push_back(from_b[problem.transpose_b ? -2 : -1]);
  if (from_a[problem.transpose_a ? -2 : -1] != from_b[problem.transpose_b ? -1 : -2])
    e.refuse("cannot multiply ", from_a, " by ", from_b);
  const int terms_a = e.rank(a) - (problem.transpose_a ? 2 : 1), terms_b = e.rank(b) - (problem.transpose_b ? 1 : 2);
  const int of_a = e.count_of(a, terms_a), of_b = e.count_of(b, terms_b);
  if (of_a >= 0 || of_b >= 0) {  // what is behind a count of terms adds nothing
    const int zero = e.scalar(0, e.dtype(a));
    a = e.filled(e.sized(a, terms_a, of_b), terms_a, zero);
    b = e.filled(e.sized(b, terms_b, of_a), terms_b, zero);
  }
  return e.solve(problem, to_shape(to), e.dtype(a), {a, b});
}

int linear(Expansion& e, int x, const Tensor& weight, const Tensor& bias, const EightBitWeights& eight) {
  const Shape from = e.shape(x);
  const std::int64_t out = weight.shape()[0], in = weight.shape()[1];
  if (from[-1] != in) e.refuse("cannot multiply ", from, " by a matrix of ", in, " rows");
  Linear layer({.in = to_int(e, in), .out = to_int(e, out), .bias = bias.defined()});
  layer.set_weight(weight);
  if (bias.defined()) layer.set_bias(bias);
  layer.set_eight_bits(eight);
  if (from.rank() > 1) return e.add(std::move(layer), {x});
  return e.reshape(e.add(std::move(layer), {e.reshape(x, {1, in})}), {out});
}

int matmul(Expansion& e, int a, int b) {
  const DType dtype = e.dtype(a);
  if (e.rank(a) < 1 || e.rank(b) < 1) e.refuse("expected operands of rank 1 or more");
  if (dtype != e.dtype(b)) e.refuse("expected operands of one type, got ", dtype, " and ", e.dtype(b));
  if (dtype == DType::boolean) e.refuse("cannot multiply truth values");
  const bool row = e.rank(a) == 1, column = e.rank(b) == 1;
  const EightBitWeights known_codes = e.rank(b) == 2 ? eight_bits(e, b, -1, true) : EightBitWeights();
  if (is_float(dtype)) a = as_f32(e, a), b = as_f32(e, b);
  if (row) a = e.reshape(a, {1, e.shape(a)[0]});
  if (column) b = e.reshape(b, {e.shape(b)[0], 1});
  int product = 0;
  if (is_weight(e, b, e.rank(a))) {
    const Shape matrix = {e.shape(b)[-2], e.shape(b)[-1]};
    product = linear(e, a, scaled(e.known(b).view(matrix), true, 1), {}, known_codes);
  } else {
    product = multiply(e, a, b, {});
  }
  std::vector<std::int64_t> to = extents_of(e.shape(product));
  if (column) to.pop_back();
  if (row) to.erase(to.end() - (column ? 1 : 2));
  return e.cast(e.reshape(product, to_shape(to)), dtype);
}

std::span<const OpRow> product_ops() { return product_rows; }

}  // namespace lamina::detail
