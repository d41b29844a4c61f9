// What the tables of cuda/product are tried on.

#include "cuda/tables/examples.h"

namespace lamina::test {
namespace {

std::vector<Example<MatMulProblem>> matmul() {
  const auto example = [](bool odd, const Shape& a, const Shape& b, const Shape& c, MatMulProblem problem = {}) {
    return Example<MatMulProblem>{
        odd, problem, {draw_floats(a, 1), draw_floats(b, 2)}, c, static_cast<double>(c.numel())};
  };
  std::vector<Example<MatMulProblem>> examples = {
      example(false, {64, 64}, {64, 64}, {64, 64}),
      example(false, {2, 4, 128}, {2, 128, 64}, {2, 4, 64}),
      example(true, {130, 40}, {40, 131}, {130, 131}),
      example(true, {33, 77}, {65, 77}, {33, 65}, {.transpose_b = true, .alpha = 0.125}),
      example(true, {77, 33}, {77, 65}, {33, 65}, {.transpose_a = true}),
      example(true, {3, 2, 5, 17}, {1, 2, 17, 9}, {3, 2, 5, 9}),
      example(true, {1, 300}, {300, 70}, {1, 70}),
      // Many products: small ones, of few terms, and of one column.
      example(true, {2, 3, 70, 99}, {2, 3, 99, 1}, {2, 3, 70, 1}),
      example(false, {5, 256, 64}, {1, 256, 1}, {5, 64, 1}, {.transpose_a = true}),
      example(true, {300, 4, 16}, {300, 16, 72}, {300, 4, 72}),
      example(false, {64, 4, 32}, {64, 32, 128}, {64, 4, 128}),
      example(true, {2, 3, 17, 196}, {2, 3, 16, 196}, {2, 3, 17, 16}, {.transpose_b = true}),
      example(false, {3, 64, 32}, {3, 64, 32}, {3, 32, 32}, {.transpose_a = true, .alpha = 0.5}),
      example(true, {2, 3, 17, 16}, {2, 3, 16, 196}, {2, 3, 17, 196}),
      example(true, {2, 3, 196, 16}, {2, 3, 16, 17}, {2, 3, 196, 17}),
      example(true, {3, 30, 300}, {3, 30, 12}, {3, 300, 12}, {.transpose_a = true, .alpha = 3}),
      example(true, {4, 1, 30, 29}, {1, 5, 29, 131}, {4, 5, 30, 131}),
  };
  for (Example<MatMulProblem>& e : examples) {  // of as many terms
    e.spread = std::sqrt(static_cast<double>(e.inputs[0].shape()[e.problem.transpose_a ? -2 : -1])) * 4;
    e.from = e.to = {Layout::nchw};
  }
  return examples;
}

std::vector<Example<AttentionProblem>> attention() {
  const auto example = [](bool odd, std::int64_t heads, std::int64_t groups, std::int64_t l, std::int64_t s,
                          std::int64_t d, std::int64_t e, const AttentionProblem& problem) {
    Example<AttentionProblem> result = {
        odd,
        problem,
        {draw_floats({2, heads, l, d}, 1), draw_floats({2, groups, s, d}, 2), draw_floats({2, groups, s, e}, 3)},
        {2, heads, l, e},
        4};
    result.from = result.to = {Layout::nchw};
    return result;
  };
  std::vector<Example<AttentionProblem>> examples = {
      example(false, 2, 2, 64, 64, 64, 64, {.scale = 0.125}),
      example(false, 4, 4, 16, 16, 32, 32, {.scale = 0.17}),
      example(true, 4, 2, 19, 37, 32, 32, {.scale = 0.17}),
      example(true, 1, 1, 65, 129, 64, 64, {.scale = 0.125, .causal = true, .past = 64}),
      example(true, 8, 4, 13, 37, 32, 32, {.scale = 0.17}),
      example(true, 3, 3, 16, 16, 6, 6, {.scale = 0.4}),
      example(true, 1, 1, 9, 40, 3, 5, {.scale = 0.5}),
      example(true, 2, 2, 20, 82, 96, 96, {.scale = 0.1}),
  };
  for (const auto& [unmasked, mask] : {std::pair<std::size_t, Shape>{2, {19, 37}}, {7, {2, 20, 82}}, {3, {13, 37}}}) {
    examples.push_back(examples[unmasked]);
    examples.back().inputs.push_back(draw_floats(mask, 4));
  }
  return examples;
}

}  // namespace

void add_product_rows(std::vector<TableRow>& rows) {
  add_example_rows<MatMulProblem, matmul>(rows);
  add_example_rows<AttentionProblem, attention>(rows);
}

}  // namespace lamina::test
