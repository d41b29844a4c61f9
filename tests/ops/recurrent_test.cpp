#include "kernel/recurrent_reference.h"
#include "lamina/graph/graph.h"
#include "lamina/plan/plan.h"
#include "support/expanded.h"

namespace lamina::test::recurrent_test {
namespace {

Attribute number(std::int64_t value) { return value; }

/// A node as ONNX has it, and what each of its outputs should be.
struct Node {
  std::string op;
  Attributes attributes = {};
  std::vector<Tensor> operands = {};  ///< X, W, R, B, lengths, h, c, P
  RecurrentCase reference = {};
  bool images_first = false;
  std::vector<double> all = {};  ///< by the reference

  Node(Cell cell, const std::string& direction, bool images_first_, bool options, unsigned seed)
      : op(cell == Cell::rnn   ? "RNN"
           : cell == Cell::gru ? "GRU"
                               : "LSTM"),
        images_first(images_first_) {
    const std::int64_t d = direction == "bidirectional" ? 2 : 1, n = 3, t = 4, in = 6, h = 5;
    attributes = {{"hidden_size", number(h)}, {"direction", direction}};
    if (images_first) attributes.emplace_back("layout", number(1));
    if (cell == Cell::gru && options) attributes.emplace_back("linear_before_reset", number(1));
    RecurrentProblem problem = {.cell = cell, .directions = static_cast<int>(d), .hidden = h};
    problem.reverse = direction == "reverse", problem.initial = options;
    problem.reset_after = options && cell == Cell::gru;
    if (cell == Cell::lstm && options) problem.peepholes = draw_floats({d, 3 * h}, seed + 50);
    reference =
        draw_recurrent(problem, t, n, seed, options ? std::vector<std::int64_t>{4, 0, 3} : std::vector<std::int64_t>{});
    const std::int64_t rows = problem.gates() * h;
    const Tensor x = draw_floats({t, n, in}, seed + 60), w = draw_floats({d, rows, in}, seed + 61),
                 b = draw_floats({d, 2 * rows}, seed + 62);
    products(x, w, b);
    const auto turned = [&](const Tensor& from, std::int64_t first, std::int64_t second) {  // [a, b, c] to [b, a, c]
      Tensor to({second, first, from.numel() / first / second});
      for (std::int64_t i = 0; i < first * second; ++i) {
        const std::int64_t size = to.shape()[2], place = i % second * first + i / second;
        std::copy_n(from.values<float>().data() + i * size, size, to.values<float>().data() + place * size);
      }
      return to;
    };
    operands = {images_first ? turned(x, t, n) : x, w, reference.problem.weight, b, {}, {}, {}, {}};
    if (!options) return;
    operands[4] = reference.inputs.back();
    for (std::size_t i = 1; i < (cell == Cell::lstm ? 3u : 2u); ++i) {
      const Tensor state = reference.inputs[i].view({n, d, h});
      operands[4 + i] = images_first ? state : turned(state, n, d);
    }
    operands[7] = problem.peepholes;
    if (cell != Cell::lstm) operands.resize(6);
  }

  /// The reference's input 0.
  void products(const Tensor& x, const Tensor& w, const Tensor& b) {
    const RecurrentProblem& p = reference.problem;
    const std::int64_t in = x.shape()[2], rows = p.gates() * p.hidden, wide = p.directions * rows;
    for (std::int64_t i = 0; i < reference.inputs[0].numel(); ++i) {
      const std::int64_t row = i / wide, column = i % wide;
      const auto bias = b.values<float>().subspan(static_cast<std::size_t>(column / rows * 2 * rows + column % rows));
      const bool apart = p.reset_after && column % rows >= 2 * p.hidden;
      double sum =
          static_cast<double>(bias[0]) + (apart ? 0 : static_cast<double>(bias[static_cast<std::size_t>(rows)]));
      for (std::int64_t k = 0; k < in; ++k) {
        sum += static_cast<double>(x.values<float>()[static_cast<std::size_t>(row * in + k)]) *
               static_cast<double>(w.values<float>()[static_cast<std::size_t>(column * in + k)]);
      }
      reference.inputs[0].values<float>()[static_cast<std::size_t>(i)] = static_cast<float>(sum);
      if (apart) {
        Tensor of_product = p.bias;
        of_product.values<float>()[static_cast<std::size_t>(column / rows * p.hidden + column % rows - 2 * p.hidden)] =
            bias[static_cast<std::size_t>(rows)];
      }
    }
    all = recurrent_reference(reference);
  }

  Op node(std::int64_t output) const {
    Attributes result = attributes;
    if (output > 0) result.emplace_back("output", number(output));
    return Op(op, result);
  }
  std::int64_t outputs() const { return op.ends_with("LSTM") ? 3 : 2; }

  std::vector<Truth> truth(std::int64_t output) const {
    const RecurrentProblem& p = reference.problem;
    const std::int64_t d = p.directions, n = reference.images, t = output == 0 ? reference.steps : 1;
    const std::int64_t first = output == 0 ? 0 : reference.steps + output - 1;
    std::vector<Truth> result;
    each({images_first ? n : t, images_first ? t : d, images_first ? d : n, p.hidden},
         [&](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t unit) {
           const std::int64_t step = images_first ? b : a, direction = images_first ? c : b,
                              image = images_first ? a : c;
           const double value =
               all[static_cast<std::size_t>((((first + step) * n + image) * d + direction) * p.hidden + unit)];
           result.push_back({value, 2e-5});
         });
    return result;
  }

  template <class F>
  static void each(const std::array<std::int64_t, 4>& extents, const F& f) {
    for (std::int64_t a = 0; a < extents[0]; ++a)
      for (std::int64_t b = 0; b < extents[1]; ++b)
        for (std::int64_t c = 0; c < extents[2]; ++c)
          for (std::int64_t e = 0; e < extents[3]; ++e) f(a, b, c, e);
  }
};

TEST(RecurrentOps, EveryCellDirectionLayoutAndOutput) {
  for (const Cell cell : {Cell::rnn, Cell::gru, Cell::lstm}) {
    for (const std::string direction : {"forward", "reverse", "bidirectional"}) {
      for (const bool images_first : {false, true}) {
        for (const bool options : {false, true}) {
          const Node node(cell, direction, images_first, options, 1);
          for (std::int64_t output = 0; output < node.outputs(); ++output) {
            const std::string what = detail::concat(node.op, ' ', direction, ", images first ", images_first,
                                                    ", all options ", options, ", output ", output);
            for (const std::set<int>& unknown : {std::set<int>{}, std::set<int>{0}}) {
              expect_near(Expanded(node.node(output), node.operands, unknown).run(), node.truth(output), what);
            }
          }
        }
      }
    }
  }
}

/// An LSTM with its weights in eight bits, one scale for each row or for all.
std::vector<Tensor> in_codes(const Node& node, bool rows_apart, DType type) {
  std::vector<Tensor> operands = node.operands, behind;
  for (const std::size_t i : {1u, 2u}) {
    const Shape from = node.operands[i].shape();
    const std::int64_t d = from[0], rows = from[1], k = from[2], zero = type == DType::u8 ? 131 : 0;
    Tensor codes({d, k, rows}, DType::i32), scales(rows_apart ? Shape{d, rows} : Shape{d});
    const std::span<const float> values = node.operands[i].values<float>();
    std::ranges::fill(scales.values<float>(), 0.0f);
    const auto scale_of = [&](std::int64_t row) -> float& {
      return scales.values<float>()[static_cast<std::size_t>(rows_apart ? row : row / rows)];
    };
    const auto row_of = [k](std::size_t j) { return static_cast<std::int64_t>(j) / k; };
    for (std::size_t j = 0; j < values.size(); ++j)
      scale_of(row_of(j)) = std::max(scale_of(row_of(j)), std::abs(values[j]) / 120);
    for (std::size_t j = 0; j < values.size(); ++j) {
      const std::int64_t row = row_of(j) % rows, direction = row_of(j) / rows, term = static_cast<std::int64_t>(j) % k;
      codes.values<std::int32_t>()[static_cast<std::size_t>((direction * k + term) * rows + row)] =
          static_cast<std::int32_t>(std::lround(values[j] / scale_of(row_of(j))) + zero);
    }
    operands[i] = codes.to(type);
    const std::vector<std::int64_t> zeros(static_cast<std::size_t>(scales.numel()), zero);
    behind.insert(behind.end(), {scales, Tensor::from(zeros, scales.shape()).to(type)});
  }
  operands.insert(operands.end(), behind.begin(), behind.end());
  return operands;
}

TEST(RecurrentOps, RefusesInWordsOfTheOp) {
  const Node lstm(Cell::lstm, "forward", false, true, 1), gru(Cell::gru, "bidirectional", false, true, 1);
  const auto with = [](const Node& node, std::string attribute, Attribute value) {
    Attributes attributes = node.attributes;
    std::erase_if(attributes, [&](const auto& a) { return a.first == attribute; });
    attributes.emplace_back(attribute, std::move(value));
    return refusal(Op(node.op, attributes), node.operands, {0});
  };
  const auto none = with(lstm, "activations", std::string("Relo,Tanh,Tanh"));
  EXPECT_EQ(none, "LSTM: there is no activation of cells \"Relo\"; nearest: \"Relu\"");
  EXPECT_EQ(with(lstm, "activations", std::string("Tanh")), "LSTM: expected 3 activations, got Tanh");
  EXPECT_EQ(with(lstm, "direction", std::string("sideways")),
            "LSTM: there is no direction \"sideways\"; there are \"forward\", \"reverse\", \"bidirectional\"");
  EXPECT_EQ(with(lstm, "clip", -1.0), "LSTM: expected a clip above 0, got -1");
  EXPECT_EQ(with(lstm, "output", number(3)), "LSTM: there is no output 3");
  EXPECT_EQ(with(gru, "output", number(2)), "GRU: there is no output 2");
  EXPECT_EQ(with(gru, "layouts", number(1)), "unknown attribute \"layouts\"; nearest: \"layout\"");
  EXPECT_EQ(with(gru, "hidden_size", number(7)),
            "GRU: expected [directions, gates * units, units] as operand 3, got [2, 15, 5]");
  const auto without = [](const Node& node, std::size_t i, const Tensor& operand) {
    std::vector<Tensor> operands = node.operands;
    operands[i] = operand;
    return refusal(node.node(0), operands, {0});
  };
  EXPECT_EQ(without(lstm, 0, Tensor({4, 3})), "LSTM: expected an input [steps, images, features], got [4, 3]");
  EXPECT_EQ(without(lstm, 1, Tensor({1, 20, 7})), "LSTM: expected [1, 20, 6] as operand 2, got [1, 20, 7]");
  EXPECT_EQ(without(lstm, 2, Tensor({20, 5})),
            "LSTM: expected [directions, gates * units, units] as operand 3, got [20, 5]");
  EXPECT_EQ(without(lstm, 3, Tensor({1, 20})), "LSTM: expected [1, 40] as operand 4, got [1, 20]");
  EXPECT_EQ(without(lstm, 4, Tensor({3})), "LSTM: expected i32 [3] as operand 5, got f32 [3]");
  EXPECT_EQ(without(gru, 5, Tensor({2, 4, 5})), "GRU: expected [2, 3, 5] as operand 6, got [2, 4, 5]");
  EXPECT_EQ(refusal(lstm.node(0), lstm.operands, {0, 2}),
            "LSTM: operand 3 must be known when the network is compiled, and depends on input \"input 2\"; give its "
            "value as CompileOptions::constants");
}

/// The three outputs of an LSTM as a Graph has them.
Graph graph_of(const Node& node) {
  Graph graph;
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Tensor& operand = node.operands[i];
    if (!operand.defined()) {
      inputs.push_back(Value{});
    } else if (i == 0 || (i > 3 && i < 7)) {
      inputs.push_back(graph.input("input " + std::to_string(i), operand.shape(), operand.dtype()));
    } else {
      inputs.push_back(graph.add("constant " + std::to_string(i), Constant(operand), {}));
    }
  }
  for (std::int64_t output = 0; output < node.outputs(); ++output) {
    graph.output(graph.add("output " + std::to_string(output), std::make_shared<Op>(node.node(output)), inputs));
  }
  return graph;
}

TEST(RecurrentOps, WeightsInEightBits) {
  const Node node(Cell::lstm, "bidirectional", false, true, 1);
  Node codes = node;
  codes.op = "DynamicQuantizeLSTM";
  for (const bool rows_apart : {false, true}) {
    for (const DType type : {DType::i8, DType::u8}) {
      codes.operands = in_codes(node, rows_apart, type);
      for (const Device device : devices_here()) {
        Plan plan = graph_of(codes).compile({.device = device, .threads = 2});
        const auto outputs =
            plan.run(std::vector<Tensor>{node.operands[0], node.operands[4], node.operands[5], node.operands[6]});
        for (std::int64_t output = 0; output < 3; ++output) {
          std::vector<Truth> truth = node.truth(output);
          for (Truth& t : truth) t.bound = 0.15;
          expect_near(outputs[static_cast<std::size_t>(output)], truth,
                      detail::concat("output ", output, ", rows apart ", rows_apart, ", ", type, " on ", device));
        }
      }
    }
  }
  codes.operands[10] = Tensor({3});
  EXPECT_EQ(refusal(codes.node(0), codes.operands, {0}),
            "DynamicQuantizeLSTM: expected 2 or 40 scales and zero points, got [3] and [2, 20]");
  codes.operands[2] = node.operands[2];
  EXPECT_EQ(refusal(codes.node(0), codes.operands, {0}),
            "DynamicQuantizeLSTM: expected weights of u8 or i8 [directions, units, gates], got f32 [2, 20, 5]");
}

TEST(RecurrentOps, OutputsOfANodeAreComputedOnce) {
  for (const Cell cell : {Cell::rnn, Cell::gru, Cell::lstm}) {
    const Node node(cell, "bidirectional", false, false, 1);
    const Graph graph = graph_of(node);
    Plan plan = graph.compile({.threads = 2});
    const std::string summary = plan.summary();
    std::size_t walks = 0;
    for (std::size_t at = summary.find("recurrence"); at != std::string::npos; at = summary.find("recurrence", at + 1))
      ++walks;
    EXPECT_EQ(walks, 1u) << summary;
    const auto outputs = plan.run(std::vector<Tensor>{node.operands[0]});
    for (std::int64_t i = 0; i < node.outputs(); ++i)
      expect_near(outputs[static_cast<std::size_t>(i)], node.truth(i), detail::concat(node.op, " output ", i));
  }
}

/// A sequence in two runs, the state handed on, is the sequence in one.
TEST(RecurrentOps, StateGoesOnInTheNextRun) {
  Node node(Cell::lstm, "forward", false, true, 1);
  node.operands[4] = {};
  Plan whole = graph_of(node).compile({.threads = 1});
  const std::vector<Tensor> inputs = {node.operands[0], node.operands[5], node.operands[6]};
  const Tensor expected = whole.run(inputs)[0].clone();
  Node half = node;
  half.operands[0] = Tensor({2, 3, 6});
  Plan plan = graph_of(half).compile({.threads = 1});
  const std::vector<Tensor> states[2] = {{node.operands[5].clone(), node.operands[6].clone()},
                                         {Tensor({1, 3, 5}), Tensor({1, 3, 5})}};
  for (std::size_t part = 0; part < 2; ++part) {
    std::copy_n(node.operands[0].values<float>().data() + part * 36, 36, half.operands[0].values<float>().data());
    const std::vector<Tensor>&from = states[part], &to = states[1 - part];
    std::vector<Tensor> outputs = {Tensor({2, 1, 3, 5}), to[0], to[1]};
    plan.run_into(std::vector<Tensor>{half.operands[0], from[0], from[1]}, outputs);
    std::vector<Truth> truth;
    for (const float value : expected.values<float>().subspan(part * 30, 30))
      truth.push_back({static_cast<double>(value), 1e-5});
    expect_near(outputs[0], truth, detail::concat("part ", part));
  }
}

TEST(RecurrentOps, LengthsOutsideAreErrorsOfTheRun) {
  const Node node(Cell::gru, "bidirectional", false, true, 1);
  for (const Device device : devices_here()) {
    Plan plan = graph_of(node).compile({.device = device, .threads = 1});
    const std::vector<Tensor> right = {node.operands[0], node.operands[4], node.operands[5]};
    expect_near(plan.run(right)[0], node.truth(0), "right");
    std::vector<Tensor> wrong = right;
    wrong[1] = Tensor::from(std::vector<std::int32_t>{4, 5, -1}, {3});
    EXPECT_THROW(plan.run(wrong), Error) << device;
    expect_near(plan.run(right)[0], node.truth(0), "right again");
  }
}

}  // namespace
}  // namespace lamina::test::recurrent_test
