// Attention, as ONNX has it since operator set 23, and as ONNX Runtime has.

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

constexpr double infinitely = -std::numeric_limits<double>::infinity();

/// What is added to the scores: of truth values, 0 where they hold and `outside` elsewhere.
int as_summand(Expansion& e, int mask, std::int64_t positions, double outside = infinitely) {
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
int length_summand(Expansion& e, int lengths, std::int64_t batch, std::int64_t positions, double outside = infinitely) {
  if (e.shape(lengths) != Shape{batch}) e.refuse("expected ", batch, " lengths of keys, got ", e.shape(lengths));
  const int place = places_along(e, 3, 4, positions);
  const int length = e.reshape(e.cast(lengths, DType::i64), {batch, 1, 1, 1});
  return as_summand(e, e.pointwise(Pointwise::greater, {length, place}), positions, outside);
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

/// [N, H, L, D] as [N, L, H * D].
int beside(Expansion& e, int y) {
  const Shape from = e.shape(y);
  return e.reshape(e.permute(y, std::vector<int>{0, 2, 1, 3}), {from[0], from[2], from[1] * from[3]});
}

/// softmax(scale q k' + the summands) v of operands [N, H, L, D]; with the heads side by side again if they were.
int attend(Expansion& e, std::vector<int> operands, const std::vector<int>& summands, AttentionProblem problem,
           bool side_by_side) {
  const Shape q = e.shape(operands[0]), v = e.shape(operands[2]), to = {q[0], q[1], q[2], v[3]};
  check(e, q, e.shape(operands[1]), v);
  if (!e.attributes().has("scale")) problem.scale = 1 / std::sqrt(static_cast<double>(q[3]));
  if (!summands.empty()) operands.push_back(summands[0]);
  if (summands.size() > 1) operands[3] = e.pointwise(Pointwise::add, {summands[0], summands[1]});
  int y = e.solve(problem, to, DType::f32, std::move(operands));
  if (side_by_side) y = beside(e, y);
  return e.cast(y, e.dtype(e.input(0)));
}

/// The same step by step, where the scores, scale q k', are capped, or an output themselves, the fourth: 0 and 1 of
/// them as they are, 2 with the summands, 3 of their softmax.
int attend_in_steps(Expansion& e, int q, int k, int v, std::vector<int> summands, AttentionProblem problem, double cap,
                    int mode, int output, bool side_by_side) {
  const std::int64_t heads = e.shape(q)[1], positions = e.shape(k)[2];
  Picks own = {1, {}};
  for (std::int64_t h = 0; h < heads; ++h) own.places.push_back(h * e.shape(k)[1] / heads);
  if (!e.attributes().has("scale")) problem.scale = 1 / std::sqrt(static_cast<double>(e.shape(q)[3]));
  const int turned = e.permute(pick(e, k, {own}), std::vector<int>{0, 1, 3, 2});
  int scores = e.pointwise(Pointwise::mul, matmul(e, q, turned), problem.scale);
  if (cap != 0)
    scores = e.pointwise(Pointwise::mul, e.pointwise(Pointwise::tanh, {e.pointwise(Pointwise::div, scores, cap)}), cap);
  if (problem.causal) {
    const int last =
        e.pointwise(Pointwise::add, places_along(e, 2, 4, e.shape(q)[2]), static_cast<double>(problem.past));
    const int seen = e.pointwise(Pointwise::less_equal, {places_along(e, 3, 4, positions), last});
    summands.push_back(as_summand(e, seen, positions));
  }
  int biased = scores;
  for (const int summand : summands) biased = e.pointwise(Pointwise::add, {biased, summand});
  const int shares = e.solve(SoftmaxProblem{.dim = 3}, e.shape(biased), DType::f32, {biased});
  int result = output == 0 ? matmul(e, shares, pick(e, v, {own})) : mode == 3 ? shares : mode == 2 ? biased : scores;
  if (output == 0 && side_by_side) result = beside(e, result);
  return e.cast(result, e.dtype(e.input(0)));
}

}  // namespace

/// ONNX Runtime's, of queries [N, L, H * D], keys and values likewise or [N, H, S, D], and the biases of all three; a
/// mask is of [N] lengths, or of 0 and 1: [N, S] or [N, L, S].
int multi_head_attention(Expansion& e) {
  const std::int64_t heads = e.attributes().long_integer("num_heads", 0);
  const double outside = e.attributes().number("mask_filter_value", -10000);
  const int output = e.attributes().integer("output", 0);
  AttentionProblem problem = {.scale = e.attributes().number("scale", 0),
                              .causal = e.attributes().boolean("unidirectional", false)};
  if (output < 0 || output > 2) e.lacks("its output ", output);
  if (e.rank(e.input(0)) != 3) e.refuse("expected queries [N, L, H * D], got ", e.shape(e.input(0)));
  std::int64_t begin = 0;
  const auto part = [&](int i) {
    int x = as_f32(e, e.input(i));
    const std::int64_t width = e.rank(x) == 4 ? e.shape(x)[1] * e.shape(x)[3] : e.shape(x)[-1];
    if (e.has(3) && e.rank(x) == 3)
      x = e.pointwise(Pointwise::add, {x, e.slice(as_f32(e, e.input(3)), 0, begin, begin + width)});
    begin += width;
    if (e.rank(x) != 3 && e.rank(x) != 4) e.refuse("expected keys and values [N, S, H * D], got ", e.shape(x));
    return split_heads(e, x, heads);
  };
  const int q = part(0), k = with_past(e, 6, part(1)), v = with_past(e, 7, part(2));
  if (output != 0) return e.cast(output == 1 ? k : v, e.dtype(e.input(0)));
  const std::int64_t batch = e.shape(q)[0], positions = e.shape(k)[2];
  if (e.has(6)) problem.past = e.shape(e.input(6))[2];
  std::vector<int> summands;
  if (e.has(4) && e.shape(e.input(4)) == Shape{batch}) {
    summands.push_back(length_summand(e, e.input(4), batch, positions, outside));
  } else if (e.has(4)) {
    const Shape mask = e.shape(e.input(4));
    if ((mask.rank() != 2 && mask.rank() != 3) || mask[-1] != positions)
      e.refuse("expected a mask [", batch, "], [", batch, ", ", positions, "] or [N, L, S], got ", mask);
    const Shape wide = {mask[0], 1, mask.rank() == 3 ? mask[1] : 1, positions};
    summands.push_back(as_summand(e, e.reshape(e.cast(e.input(4), DType::boolean), wide), positions, outside));
  }
  if (e.has(5)) summands.push_back(as_summand(e, e.input(5), positions));
  return attend(e, {q, k, v}, summands, problem, true);
}

int attention(Expansion& e) {
  const int rank = e.rank(e.input(0)), output = e.attributes().integer("output", 0);
  const std::int64_t heads = e.attributes().long_integer("q_num_heads", 0);
  const std::int64_t groups = e.attributes().long_integer("kv_num_heads", 0);
  const bool causal = e.attributes().boolean("is_causal", false);
  const double softcap = e.attributes().number("softcap", 0), given = e.attributes().number("scale", 0);
  e.attributes().integer("softmax_precision", 1);  // always f32
  const int mode = e.attributes().integer("qk_matmul_output_mode", 0);
  if (output < 0 || output > 3 || mode < 0 || mode > 3) e.lacks("its output ", output);
  if ((rank != 3 && rank != 4) || e.rank(e.input(1)) != rank || e.rank(e.input(2)) != rank)
    e.refuse("expected operands [N, L, H * D] or [N, H, L, D], got ", e.shape(e.input(0)));
  const int q = split_heads(e, as_f32(e, e.input(0)), heads);
  const int k = with_past(e, 4, split_heads(e, as_f32(e, e.input(1)), groups));
  const int v = with_past(e, 5, split_heads(e, as_f32(e, e.input(2)), groups));
  if (output == 1 || output == 2) return e.cast(output == 1 ? k : v, e.dtype(e.input(output)));
  check(e, e.shape(q), e.shape(k), e.shape(v));
  const std::int64_t positions = e.shape(k)[2];
  AttentionProblem problem = {.scale = given, .causal = causal};
  if (e.has(4)) problem.past = e.shape(e.input(4))[2];
  std::vector<int> summands;
  if (e.has(3)) summands.push_back(as_summand(e, e.input(3), positions));
  if (e.has(6)) summands.push_back(length_summand(e, e.input(6), e.shape(q)[0], positions));
  if (softcap != 0 || output == 3)
    return attend_in_steps(e, q, k, v, summands, problem, softcap, mode, output, rank == 3);
  return attend(e, {q, k, v}, summands, problem, rank == 3);
}

/// Pairs of elements of each head turned by an angle, whose cosines and sines are in a table by position, or there for
/// each position: the first half of the head and the second, or neighbours.
int rotary_embedding(Expansion& e) {
  const int rank = e.rank(e.input(0));
  const bool neighbours = e.attributes().boolean("interleaved", false);
  const std::int64_t heads = e.attributes().long_integer("num_heads", 0),
                     wanted = e.attributes().long_integer("rotary_embedding_dim", 0);
  if (rank != 3 && rank != 4) e.refuse("expected [N, L, H * D] or [N, H, L, D], got ", e.shape(e.input(0)));
  const int x = split_heads(e, as_f32(e, e.input(0)), heads);
  const Shape from = e.shape(x);
  const std::int64_t width = wanted == 0 ? from[3] : wanted, half = width / 2;
  if (width < 2 || width % 2 != 0 || width > from[3]) e.refuse("cannot turn ", width, " of ", from[3], " elements");
  const auto table = [&](int i) {
    const int found = e.has(3) ? take(e, e.input(i), e.input(3), 0) : e.input(i);
    if (e.shape(found) != Shape{from[0], from[2], half})
      e.refuse("expected angles of ", Shape{from[0], from[2], half}, ", got ", e.shape(found));
    return e.reshape(as_f32(e, found), {from[0], 1, from[2], half});
  };
  const auto part = [&](std::int64_t begin) {
    Picks places = {3, {}};
    for (std::int64_t i = 0; i < half; ++i) places.places.push_back(neighbours ? 2 * i + begin : i + begin * half);
    return pick(e, x, {places});
  };
  const int cosine = table(1), sine = table(2), a = part(0), b = part(1);
  const auto product = [&](int factor, int y) { return e.pointwise(Pointwise::mul, {y, factor}); };
  const Shape each = {from[0], from[1], from[2], half, 1};
  const int real = e.reshape(e.pointwise(Pointwise::sub, {product(cosine, a), product(sine, b)}), each),
            other = e.reshape(e.pointwise(Pointwise::add, {product(sine, a), product(cosine, b)}), each);
  int y = e.reshape(e.join({real, other}, neighbours ? 4 : 3), {from[0], from[1], from[2], width});
  if (width < from[3]) y = e.join({y, e.slice(x, 3, width, from[3])}, 3);
  return e.cast(rank == 3 ? beside(e, y) : y, e.dtype(e.input(0)));
}

}  // namespace lamina::detail
