// What the tables of cuda/array are tried on.

#include "cuda/tables/examples.h"

namespace lamina::test {
namespace {

/// Chains over whole operands, and with one that broadcasts: a factor for each channel, a row, a number.
std::vector<Example<PointwiseProblem>> pointwise() {
  const PointwiseProblem one = {{{.function = Pointwise::hard_swish}, {.function = Pointwise::neg}}};
  const PointwiseProblem sum = {{{.function = Pointwise::add, .operand = 1}, {.function = Pointwise::relu}}};
  const PointwiseProblem product = {{{.function = Pointwise::sigmoid}, {.function = Pointwise::mul, .operand = 1}}};
  std::vector<Example<PointwiseProblem>> examples;
  for (const auto& [odd, shape] :
       {std::pair{false, Shape{2, 64, 8, 8}}, {true, {3, 13, 5, 7}}, {true, {1, 40, 3, 1}}}) {
    const Tensor x = draw_floats(shape, 1), y = draw_floats(shape, 2);
    examples.push_back({odd, one, {x}, shape, 4});
    examples.push_back({odd, sum, {x, y}, shape, 4});
    examples.push_back({odd, product, {x, y}, shape, 4});
    examples.push_back({odd, sum, {x, draw_floats({1, shape[1], 1, 1}, 3)}, shape, 4});
    examples.push_back({odd, product, {x, draw_floats({shape[0], shape[1], 1, 1}, 4)}, shape, 4});
    examples.push_back({odd, product, {draw_floats({shape[0], shape[1], 1, 1}, 4), x}, shape, 4});
    examples.push_back({odd, sum, {x, draw_floats({1}, 5)}, shape, 4});
  }
  examples.push_back({true, sum, {draw_floats({7, 1, 33}, 6), draw_floats({5, 1}, 7)}, {7, 5, 33}, 4});
  return examples;
}

/// Of codes: functions, sums and products, from floats and to them, and what only the longest chains have.
std::vector<Example<PointwiseProblem>> pointwise_and_codes() {
  const PointwiseProblem none = {{{.function = Pointwise::identity}}};
  const PointwiseProblem function = {{{.function = Pointwise::hard_swish}, {.function = Pointwise::tanh}}};
  const PointwiseProblem sum = {{{.function = Pointwise::add, .operand = 1}}};
  const PointwiseProblem product = {{{.function = Pointwise::mul, .operand = 1}}};
  const PointwiseProblem clamped = {{{.function = Pointwise::add, .operand = 1}, {.function = Pointwise::relu}}};
  const PointwiseProblem clipped = {
      {{.function = Pointwise::add, .operand = 1}, {.function = Pointwise::clip, .a = -0.3, .b = 1.7}}};
  const PointwiseProblem three = {{{.function = Pointwise::sub, .operand = 1},
                                   {.function = Pointwise::div, .a = 3},
                                   {.function = Pointwise::mul, .operand = 2},
                                   {.function = Pointwise::max, .operand = 1}}};
  std::vector<Example<PointwiseProblem>> examples = pointwise();
  for (const auto& [type, a, b, c] : code_cases) {
    const CodeCase codes = {type, a, b, c};
    for (const auto& [odd, shape] : {std::pair{false, Shape{2, 64, 8, 8}},
                                     {true, {3, 13, 5, 7}},
                                     {true, {2, 24, 3, 5}},
                                     {true, {1, 40, 3, 1}},
                                     {true, {7, 33}}}) {
      const Tensor x = codes.draw(shape, 1), y = codes.draw(shape, 2), floats = draw_floats(shape, 3);
      const auto add = [&](const PointwiseProblem& problem, std::vector<Tensor> inputs, std::optional<DType> result,
                           std::vector<Quantization> of) {
        examples.push_back({.odd = odd,
                            .problem = problem,
                            .inputs = std::move(inputs),
                            .output = shape,
                            .spread = 0,
                            .result = result,
                            .codes = std::move(of)});
      };
      add(function, {x}, type, {a, c});
      add(none, {x}, type, {a, c});
      for (const DType result : {DType::f32, DType::f16, DType::bf16}) add(none, {x}, result, {a, {}});
      add(none, {floats}, type, {{}, c});
      for (const PointwiseProblem& problem : {sum, product, clamped, clipped}) add(problem, {x, y}, type, {a, b, c});
      add(three, {x, y, floats}, type, {a, b, {}, c});
      add(clamped, {floats, y}, type, {{}, b, c});
      add(sum, {x, y}, DType::f32, {a, b, {}});
      const Shape per_channel = shape.rank() == 4 ? Shape{1, shape[1], 1, 1} : Shape{1, shape[1]};
      const Shape per_image = shape.rank() == 4 ? Shape{shape[0], shape[1], 1, 1} : Shape{shape[0], 1};
      for (const Shape& small : {per_channel, per_image, Shape{1}}) {
        add(product, {x, codes.draw(small, 4)}, type, {a, b, c});
        add(clamped, {codes.draw(small, 5), x}, type, {b, a, c});
      }
    }
  }
  return examples;
}

std::vector<Example<ConcatProblem>> concat() {
  std::vector<Example<ConcatProblem>> examples;
  for (const auto& [odd, channels] : {std::pair{false, std::vector<std::int64_t>{32, 64, 8}},
                                      {true, {3, 5, 16}},
                                      {true, {1}},
                                      {true, std::vector<std::int64_t>(37, 3)}}) {
    std::vector<Tensor> inputs;
    std::int64_t all = 0;
    for (const std::int64_t c : channels) inputs.push_back(draw_floats({2, c, 3, 5}, static_cast<unsigned>(all += c)));
    examples.push_back({odd, {.dim = 1}, std::move(inputs), {2, all, 3, 5}, 0});
  }
  for (const CodeCase& codes : code_cases) {
    examples.push_back({.odd = true,
                        .problem = {.dim = 1},
                        .inputs = {codes.draw({2, 3, 3, 5}, 1), codes.draw({2, 16, 3, 5}, 2)},
                        .output = {2, 19, 3, 5},
                        .spread = 0,
                        .codes = {codes.a, codes.a, codes.a}});
  }
  examples.push_back({true, {.dim = 0}, {draw_floats({2, 7, 3}, 1), draw_floats({5, 7, 3}, 2)}, {7, 7, 3}, 0});
  return examples;
}

std::vector<Example<MoveProblem>> move() {
  const MoveProblem turned = {{{.extent = 16, .stride = 1}, {.extent = 64, .stride = 16}}};
  const MoveProblem odd = {{{.extent = 5, .stride = 1}, {.extent = 33, .stride = 35}, {.extent = 7, .stride = 5}}};
  // Backwards, with something around it.
  const MoveProblem padded = {
      .axes = {{.extent = 9, .stride = 13},
               {.extent = 16, .offsets = {-1, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, -1, -1}}},
      .fill = 2};
  return {{false, turned, {draw_floats({64, 16}, 1)}, {16, 64}, 0},
          {true, odd, {draw_floats({33, 7, 5}, 2)}, {5, 33, 7}, 0},
          {true, padded, {draw_floats({9, 13}, 3)}, {9, 16}, 0},
          {true, odd, {draw_any({33, 7, 5}, 2, DType::i64)}, {5, 33, 7}, 0},
          {true, padded, {draw_any({9, 13}, 3, DType::u8)}, {9, 16}, 0},
          {.odd = true,
           .problem = padded,
           .inputs = {code_cases[1].draw({9, 13}, 3)},
           .output = {9, 16},
           .spread = 0,
           .codes = {code_cases[1].a, code_cases[1].a}}};
}

std::vector<Example<ReduceProblem>> reduce() {
  std::vector<Example<ReduceProblem>> examples;
  for (const Reduction kind :
       {Reduction::sum, Reduction::mean, Reduction::max, Reduction::min, Reduction::prod, Reduction::l1, Reduction::l2,
        Reduction::sum_square, Reduction::log_sum_exp, Reduction::arg_max, Reduction::arg_min}) {
    const bool place = kind == Reduction::arg_max || kind == Reduction::arg_min;
    const bool exact = place || kind == Reduction::max || kind == Reduction::min;
    const auto example = [&](bool odd, const Shape& shape, unsigned dims, const Shape& output) {
      Example<ReduceProblem> e = {odd, {.kind = kind, .dims = dims}, {draw_floats(shape, 8)}, output};
      if (place) e.result = DType::i64;
      const auto terms = static_cast<double>(shape.numel() / output.numel());
      e.spread = exact ? 0 : kind == Reduction::prod ? 1e-3 : kind == Reduction::mean ? 1 : terms;
      examples.push_back(std::move(e));
    };
    example(false, {2, 32, 8, 8}, 0b1000, {2, 32, 8});
    example(true, {7, 33}, 0b10, {7});
    example(true, {33, 7}, 0b01, {7});
    if (place) continue;
    example(false, {2, 32, 8, 8}, 0b1100, {2, 32, 1, 1});
    // A product of a thousand is 0 or not by its order, and 0 times Inf a NaN.
    if (kind != Reduction::prod) example(false, {2, 40, 34, 32}, 0b1100, {2, 40, 1, 1});
    example(true, {3, 5, 7, 9}, 0b0101, {5, 9});
    example(true, {3, 1030}, 0b11, {});
  }
  return examples;
}

std::vector<Example<NormProblem>> norm() {
  std::vector<Example<NormProblem>> examples;
  for (const NormKind kind : {NormKind::centred, NormKind::root_mean_square}) {
    const auto example = [&](bool odd, const Shape& shape, NormProblem problem) {
      problem.kind = kind;
      problem.scale = draw_floats({problem.channels}, 9), problem.shift = draw_floats({problem.channels}, 10);
      std::vector<Tensor> inputs = {draw_floats(shape, 11)};
      if (problem.epilogue.reads_operands()) inputs.push_back(draw_floats(shape, 12));
      examples.push_back({odd, problem, std::move(inputs), shape, 8});
    };
    example(false, {8, 256}, {.length = 256, .channels = 256});
    example(false, {3, 768}, {.length = 768, .channels = 768});
    example(true, {5, 77}, {.length = 77, .channels = 77});
    example(true, {2, 5000}, {.length = 5000, .channels = 5000});
    example(true, {2, 12, 5, 7}, {.length = 4 * 35, .inner = 35, .channels = 12});
    // Whole images: in registers, in parts, and of channels that are no whole packs.
    example(true, {2, 16, 5, 7}, {.length = 16 * 35, .inner = 35, .channels = 16});
    example(true, {2, 24, 20, 20}, {.length = 24 * 400, .inner = 400, .channels = 24});
    example(true, {3, 13, 29, 27}, {.length = 13 * 783, .inner = 783, .channels = 13});
    // Groups of them: of channels, of two, of half a pack and of several.
    example(false, {2, 32, 5, 7}, {.length = 35, .inner = 35, .channels = 32});
    example(false, {3, 64, 30, 31}, {.length = 2 * 930, .inner = 930, .channels = 64});
    example(false, {2, 96, 9, 9}, {.length = 12 * 81, .inner = 81, .channels = 96});
    example(false, {1, 1024, 14, 14}, {.length = 32 * 196, .inner = 196, .channels = 1024});
    // A sum behind groups of four.
    example(false, {2, 32, 24, 25},
            {.length = 4 * 600,
             .inner = 600,
             .channels = 32,
             .epilogue = {.chain = {{Pointwise::add, 1}, {Pointwise::relu}}}});
  }
  return examples;
}

}  // namespace

void add_array_rows(std::vector<TableRow>& rows) {
  add_example_rows<PointwiseProblem, pointwise_and_codes>(rows);
  add_example_rows<ConcatProblem, concat>(rows);
  add_example_rows<MoveProblem, move>(rows);
  add_example_rows<ReduceProblem, reduce>(rows);
  add_example_rows<NormProblem, norm>(rows);
}

}  // namespace lamina::test
