// RNN, GRU and LSTM: one product over all steps for what comes in, and the walk over the steps.

#include <algorithm>
#include <initializer_list>

#include "lamina/kernel/rules/recurrent.h"
#include "lamina/ops/parts.h"
#include "lamina/ops/rows/products.h"
#include "lamina/ops/rows/quantized.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

/// Of D directions; the numbers of those that have some, by default as ONNX says.
PointwiseChain functions_of(Expansion& e, Cell cell, int directions) {
  const std::string one = cell == Cell::rnn ? "Tanh" : cell == Cell::gru ? "Sigmoid,Tanh" : "Sigmoid,Tanh,Tanh";
  const std::string wanted = e.attributes().text("activations", directions == 2 ? one + "," + one : one);
  const std::vector<double> alphas = e.attributes().numbers("activation_alpha", {});
  const std::vector<double> betas = e.attributes().numbers("activation_beta", {});
  PointwiseChain functions;
  for (std::size_t begin = 0, end = 0, numbers = 0; begin <= wanted.size(); begin = end + 1) {
    end = std::min(wanted.find(',', begin), wanted.size());
    PointwiseStep step = {.function = choice<Pointwise>(e, "activation of cells", wanted.substr(begin, end - begin),
                                                        {{"Sigmoid", Pointwise::sigmoid},
                                                         {"Tanh", Pointwise::tanh},
                                                         {"Relu", Pointwise::relu},
                                                         {"HardSigmoid", Pointwise::hard_sigmoid}})};
    if (step.function == Pointwise::hard_sigmoid) {
      step.a = numbers < alphas.size() ? alphas[numbers] : 0.2;
      step.b = numbers < betas.size() ? betas[numbers] : 0.5;
      ++numbers;
    }
    functions.push_back(step);
  }
  const auto count = (1 + std::ranges::count(one, ',')) * directions;
  if (std::ssize(functions) != count) e.refuse("expected ", count, " activations, got ", wanted);
  return functions;
}

Tensor known(const Expansion& e, int i, const Shape& shape) {
  Tensor value = known_f32(e, i);
  if (value.shape() != shape) e.refuse("expected ", shape, " as operand ", i + 1, ", got ", value.shape());
  return value;
}

/// The biases of x's products and of h's, [D, 2 * G * H], as one [D * G * H]; but for what is added to a product that r
/// is a factor of, which stays the problem's.
Tensor joined_bias(const Tensor& both, RecurrentProblem& problem) {
  const std::int64_t rows = problem.gates() * problem.hidden;
  Tensor bias({problem.directions * rows});
  float* apart = problem.reset_after ? problem.bias.values<float>().data() : nullptr;
  for (std::int64_t i = 0; i < bias.numel(); ++i) {
    const float* const of_x = both.values<float>().data() + i / rows * 2 * rows + i % rows;
    const bool joins = apart == nullptr || i % rows < 2 * problem.hidden;
    if (!joins) *apart++ = of_x[rows];
    bias.values<float>()[static_cast<std::size_t>(i)] = joins ? of_x[0] + of_x[rows] : of_x[0];
  }
  return bias;
}

/// Weights of u8 or i8 [D, K, rows], with one scale, and one zero point, for each direction or for each row of it, as
/// [D * rows, K].
EightBitWeights codes_of(const Expansion& e, int weight, int scale, int zero_point) {
  const Tensor values = e.constant(weight), scales = known_f32(e, scale), zeros = e.constant(zero_point).to(DType::i32);
  const Shape shape = values.shape();
  if (shape.rank() != 3 || (values.dtype() != DType::i8 && values.dtype() != DType::u8))
    e.refuse("expected weights of u8 or i8 [directions, units, gates], got ", values.dtype(), ' ', shape);
  const std::int64_t d = shape[0], k = shape[1], rows = shape[2];
  if (d < 1 || (scales.numel() != d && scales.numel() != d * rows) || zeros.numel() != scales.numel())
    e.refuse("expected ", d, " or ", d * rows, " scales and zero points, got ", scales.shape(), " and ", zeros.shape());
  EightBitWeights all = {.weight = Tensor({d * rows, k}, DType::i8), .scale = Tensor({d * rows})};
  all.zero_point = Tensor({d * rows}, DType::i32);
  for (std::int64_t i = 0; i < d; ++i) {
    const auto part = [i](const Tensor& of, const Shape& to) {
      auto* const from = static_cast<std::byte*>(const_cast<void*>(of.raw()));
      return Tensor::borrow(from + static_cast<std::size_t>(i * to.numel()) * size_of(of.dtype()), to, of.dtype());
    };
    const Shape each = {scales.numel() / d};
    const EightBitWeights one = in_i8(e, part(values, {k, rows}), part(scales, each), part(zeros, each), true);
    part(all.weight, {rows, k}).copy_from(one.weight);
    part(all.scale, {rows}).copy_from(one.scale);
    part(all.zero_point, {rows})
        .copy_from(one.zero_point.defined() ? one.zero_point : Tensor::zeros({rows}, DType::i32));
  }
  if (std::ranges::count(all.zero_point.values<std::int32_t>(), 0) == d * rows) all.zero_point = {};
  return all;
}

/// X in codes of its range times weights in codes, and a bias.
int dynamic_linear(Expansion& e, int x, const EightBitWeights& eight, const Tensor& bias) {
  const DynamicCodes codes = dynamic_codes(e, x);
  const int sums = e.cast(integer_linear(e, codes.values, codes.zero_point, eight), DType::f32);
  const int scale = e.pointwise(Pointwise::mul, {e.constant_node(eight.scale), codes.scale});
  const int product = e.pointwise(Pointwise::mul, {sums, scale});
  return bias.defined() ? e.pointwise(Pointwise::add, {product, e.constant_node(bias)}) : product;
}

/// `codes`: ONNX Runtime's DynamicQuantizeLSTM, whose weights are in eight bits, turned, with scales behind P.
template <Cell cell, bool codes = false>
int recurrent(Expansion& e) {
  constexpr bool lstm = cell == Cell::lstm;
  const std::string direction = e.attributes().text("direction", "forward");
  RecurrentProblem problem = {.cell = cell, .reverse = direction == "reverse"};
  const int d = problem.directions =
      choice<int>(e, "direction", direction, {{"forward", 1}, {"reverse", 1}, {"bidirectional", 2}});
  problem.functions = functions_of(e, cell, d);
  if constexpr (cell == Cell::gru) problem.reset_after = e.attributes().boolean("linear_before_reset", false);
  if constexpr (lstm) problem.input_forget = e.attributes().boolean("input_forget", false);
  if (e.attributes().has("clip")) problem.clip = static_cast<float>(e.attributes().number("clip", 0));
  if (!(problem.clip > 0)) e.refuse("expected a clip above 0, got ", problem.clip);
  const bool images_first = e.attributes().boolean("layout", false);
  const int output = e.attributes().integer("output", 0);
  if (output < 0 || output > (lstm ? 2 : 1)) e.refuse("there is no output ", output);

  int x = as_f32(e, e.input(0));
  if (e.rank(x) != 3) e.refuse("expected an input [steps, images, features], got ", e.shape(x));
  if constexpr (codes) {
    EightBitWeights eight = codes_of(e, 2, 10, 11);
    const Shape shape = e.shape(e.input(2));
    problem.scale = eight.scale.clone();
    std::ranges::fill(eight.scale.values<float>(), 1.0f);
    problem.weight = meaning(eight).view({shape[0], shape[2], shape[1]});
  } else {
    problem.weight = known_f32(e, 2);
  }
  const std::int64_t h = problem.hidden = problem.weight.shape().rank() == 3 ? problem.weight.shape()[2] : 0;
  const std::int64_t rows = problem.gates() * h, said = e.attributes().long_integer("hidden_size", h);
  if (h < 1 || said != h || problem.weight.shape() != Shape{d, rows, h})
    e.refuse("expected [directions, gates * units, units] as operand 3, got ", problem.weight.shape());
  if (problem.reset_after) problem.bias = Tensor::zeros({d, h});
  if (lstm && e.has(7)) problem.peepholes = known(e, 7, {d, 3 * h});

  const std::int64_t images = e.shape(x)[images_first ? 0 : 1], steps = e.shape(x)[images_first ? 1 : 0];
  const int step_axis = images_first ? 1 : 0, there = e.count_of(x, step_axis);  // how long all images are in a run
  if (there >= 0 && e.has(4))
    e.refuse("lengths of images of which a run knows how many steps there are; not supported");
  if (there >= 0) x = e.filled(x, step_axis, e.scalar(0, DType::f32));
  const auto turned = [&](int node, std::initializer_list<int> order) {  // as it is computed, and back
    return images_first ? e.permute(node, std::vector<int>(order)) : node;
  };
  /// An initial state as [N, D * H].
  const auto state = [&](int i) {
    const Shape stored = images_first ? Shape{images, d, h} : Shape{d, images, h}, wanted = {images, d * h};
    const int some = e.count_of(x, images_first ? 0 : 1);
    if (!e.has(i)) return e.counted(e.constant_node(Tensor::zeros(wanted)), 0, some);
    if (e.shape(e.input(i)) != stored)
      e.refuse("expected ", stored, " as operand ", i + 1, ", got ", e.shape(e.input(i)));
    const int node = as_f32(e, e.input(i));
    return e.reshape(images_first ? node : e.permute(node, std::vector<int>{1, 0, 2}), wanted);
  };
  const int all = e.once([&] {
    const std::int64_t features = e.shape(x)[2];
    const Tensor bias = e.has(3) ? joined_bias(known(e, 3, {d, 2 * rows}), problem) : Tensor();
    std::vector<int> operands = {turned(x, {1, 0, 2})};
    if constexpr (codes) {
      const EightBitWeights eight = codes_of(e, 1, 8, 9);
      if (e.shape(e.input(1)) != Shape{d, features, rows})
        e.refuse("expected ", Shape{d, features, rows}, " as operand 2, got ", e.shape(e.input(1)));
      operands[0] = dynamic_linear(e, operands[0], eight, bias);
    } else {
      const Tensor weight = known(e, 1, {d, rows, features}).view({d * rows, features});
      operands[0] = linear(e, operands[0], weight, bias);
    }

    problem.initial = e.has(5) || (lstm && e.has(6)), problem.lengths = e.has(4) || there >= 0;
    if (problem.initial) operands.push_back(state(5));
    if (problem.initial && lstm) operands.push_back(state(6));
    if (problem.lengths) {
      operands.push_back(there < 0 ? e.input(4)
                                   : e.move(e.cast(there, DType::i32), {{{.extent = images, .stride = 0}}}, {images}));
    }
    if (problem.lengths && (e.shape(operands.back()) != Shape{images} || e.dtype(operands.back()) != DType::i32))
      e.refuse("expected i32 ", Shape{images}, " as operand 5, got ", e.dtype(e.input(4)), ' ', e.shape(e.input(4)));
    return e.solve(problem, {steps + (lstm ? 2 : 1), images, d * h}, DType::f32, std::move(operands));
  });
  const bool sequence = output == 0;
  const std::int64_t first = sequence ? 0 : steps + output - 1, count = sequence ? steps : 1;
  const int part = e.reshape(e.slice(all, 0, first, first + count), {count, images, d, h});
  int result = e.permute(part, images_first ? std::vector<int>{1, 0, 2, 3} : std::vector<int>{0, 2, 1, 3});
  if (!sequence) result = e.reshape(result, images_first ? Shape{images, d, h} : Shape{d, images, h});
  return e.cast(sequence ? e.counted(result, step_axis, there) : result, e.dtype(e.input(0)));
}

constexpr OpRow recurrent_rows[] = {{"DynamicQuantizeLSTM", recurrent<Cell::lstm, true>},
                                    {"GRU", recurrent<Cell::gru>},
                                    {"LSTM", recurrent<Cell::lstm>},
                                    {"RNN", recurrent<Cell::rnn>}};

}  // namespace

std::span<const OpRow> recurrent_ops() { return recurrent_rows; }

}  // namespace lamina::detail
