// Attention, as ONNX has it since operator set 23.

#include <cmath>
#include <limits>

#include "lamina/ops/parts.h"
#include "lamina/ops/rows/products.h"

namespace lamina::detail {
namespace {

/// [N, L, heads * D] as [N, heads, L, D].
int split_heads(Expansion& e, int x, std::int64_t heads) {
  if (e.rank(x) == 4) return x;
  const Shape from = e.shape(x);
  if (heads < 1 || from[2] % heads != 0) e.refuse("cannot make ", heads, " heads of ", from);
  const int split = e.reshape(x, {from[0], from[1], heads, from[2] / heads});
  return e.permute(split, std::vector<int>{0, 2, 1, 3});
}

/// What is added to the scores: of truth values, 0 where they hold and -Inf elsewhere.
int as_summand(Expansion& e, int mask, std::int64_t positions) {
  constexpr double outside = -std::numeric_limits<double>::infinity();
  if (e.dtype(mask) == DType::boolean) {
    const int seen = constant_of(e, {0}, {}, DType::f32), hidden = constant_of(e, {outside}, {}, DType::f32);
    mask = e.pointwise(Pointwise::where, {mask, seen, hidden});
  } else {
    mask = as_f32(e, mask);
  }
  const int rank = e.rank(mask);
  if (rank < 2 || rank > 4) e.refuse("expected a mask [..., L, S], got ", e.shape(mask));
  const std::int64_t known = e.shape(mask)[-1];
  if (known >= positions || known == 1) return mask;
  return pick(e, mask, {places_of(e, rank - 1, 0, positions, known)}, outside);
}

/// Of a batch's `lengths` [N] the positions that are there: [N, 1, 1, S].
int length_summand(Expansion& e, int lengths, std::int64_t batch, std::int64_t positions) {
  if (e.shape(lengths) != Shape{batch}) e.refuse("expected ", batch, " nonpad_kv_seqlen, got ", e.shape(lengths));
  const int place = places_along(e, 3, 4, positions);
  const int length = e.reshape(e.cast(lengths, DType::i64), {batch, 1, 1, 1});
  return as_summand(e, e.pointwise(Pointwise::greater, {length, place}), positions);
}

/// Past positions before the new ones.
int with_past(Expansion& e, int i, int x) {
  if (!e.has(i)) return x;
  const Shape past = e.shape(e.input(i)), now = e.shape(x);
  if (past.rank() != 4 || past[0] != now[0] || past[1] != now[1] || past[3] != now[3])
    e.refuse("a past of ", past, " is not that of ", now);
  return e.join({as_f32(e, e.input(i)), x}, 2);
}

void check(const Expansion& e, const Shape& q, const Shape& k, const Shape& v) {
  const bool fits = q[0] == k[0] && q[3] == k[3] && k[0] == v[0] && k[1] == v[1] && k[2] == v[2] && k[1] > 0 &&
                    q[1] % k[1] == 0 && q[3] > 0;
  if (!fits) e.refuse("queries ", q, ", keys ", k, " and values ", v, " do not fit");
}

}  // namespace

int attention(Expansion& e) {
  const int rank = e.rank(e.input(0)), output = e.attributes().integer("output", 0);
  const std::int64_t heads = e.attributes().long_integer("q_num_heads", 0);
  const std::int64_t groups = e.attributes().long_integer("kv_num_heads", 0);
  const bool causal = e.attributes().boolean("is_causal", false);
  const double softcap = e.attributes().number("softcap", 0), given = e.attributes().number("scale", 0);
  e.attributes().integer("softmax_precision", 1);  // always f32
  e.attributes().integer("qk_matmul_output_mode", 0);
  if (softcap != 0) e.refuse("a softcap is not supported");
  if (output < 0 || output > 2) e.refuse("its output ", output, " is not supported");
  if ((rank != 3 && rank != 4) || e.rank(e.input(1)) != rank || e.rank(e.input(2)) != rank)
    e.refuse("expected operands [N, L, H * D] or [N, H, L, D], got ", e.shape(e.input(0)));
  const int q = split_heads(e, as_f32(e, e.input(0)), heads);
  const int k = with_past(e, 4, split_heads(e, as_f32(e, e.input(1)), groups));
  const int v = with_past(e, 5, split_heads(e, as_f32(e, e.input(2)), groups));
  if (output != 0) return e.cast(output == 1 ? k : v, e.dtype(e.input(output)));
  check(e, e.shape(q), e.shape(k), e.shape(v));
  const Shape from = e.shape(q);
  const std::int64_t positions = e.shape(k)[2];
  AttentionProblem problem = {.scale = given, .causal = causal};
  if (!e.attributes().has("scale")) problem.scale = 1 / std::sqrt(static_cast<double>(from[3]));
  if (e.has(4)) problem.past = e.shape(e.input(4))[2];
  std::vector<int> operands = {q, k, v};
  if (e.has(3)) operands.push_back(as_summand(e, e.input(3), positions));
  if (e.has(6)) {
    const int lengths = length_summand(e, e.input(6), from[0], positions);
    if (e.has(3)) {
      operands[3] = e.pointwise(Pointwise::add, {operands[3], lengths});
    } else {
      operands.push_back(lengths);
    }
  }
  const Shape to = {from[0], from[1], from[2], e.shape(v)[3]};
  int y = e.solve(problem, to, DType::f32, std::move(operands));
  if (rank == 3) y = e.reshape(e.permute(y, std::vector<int>{0, 2, 1, 3}), {to[0], to[2], to[1] * to[3]});
  return e.cast(y, e.dtype(e.input(0)));
}

}  // namespace lamina::detail
