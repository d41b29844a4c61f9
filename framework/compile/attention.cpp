// Attention as exporters spell it out: softmax(scale * q k' + mask) v, a product of matrices, functions of its
// elements, a softmax and another product, become the one operation that keeps no matrix of scores.

#include <algorithm>
#include <optional>

#include "lamina/compile/program.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/fixed.h"
#include "lamina/layers/softmax.h"

namespace lamina::detail {
namespace {

constexpr int none = -1;

class Finder {
 public:
  Finder(Program& program, const CompileOptions& options)
      : program_(program),
        options_(options),
        readers_(program.values.size(), 0),
        producer_(program.values.size(), none) {
    for (std::size_t i = 0; i < program_.operations.size(); ++i) {
      const Operation& op = program_.operations[i];
      producer_[index(op.output)] = static_cast<int>(i);
      for (const int input : op.inputs) ++readers_[index(input)];
    }
    for (const int output : program_.outputs) ++readers_[index(output)];
  }

  void find() {
    for (Operation& op : program_.operations) {
      if (const auto found = match(op)) replace(op, *found);
    }
    std::erase_if(program_.operations, [](const Operation& op) { return op.module == nullptr; });
  }

 private:
  using Operation = Program::Operation;

  /// What was found, from the last operation to the first.
  struct Match {
    std::vector<Operation*> parts;  // all but the last product
    int q = none, k = none, v = none, mask = none;
    double scale = 1;
    Operation* turn = nullptr;            // writes k', and is to write k
    std::optional<MoveProblem> turned{};  // as it does then
  };

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  const Shape& shape(int value) const { return program_.value(value).shape; }

  /// The operation that computes a value which only one other reads.
  Operation* only_for(int value) {
    if (readers_[index(value)] != 1 || producer_[index(value)] == none) return nullptr;
    Operation& op = program_.operations[index(producer_[index(value)])];
    return op.view ? nullptr : &op;
  }

  template <class Problem>
  std::optional<Problem> problem_of(const Operation& op) const {
    const auto* layer = dynamic_cast<const Layer<Problem>*>(op.module.get());
    if (layer == nullptr) return std::nullopt;
    std::vector<Shape> inputs;
    for (const int input : op.inputs) inputs.push_back(shape(input));
    return layer->problem(inputs);
  }

  /// Takes a factor out of a chain's step.
  static bool take_factor(const PointwiseStep& step, double& scale) {
    if (step.operand >= 0 || (step.function != Pointwise::mul && step.function != Pointwise::div)) return false;
    step.function == Pointwise::mul ? scale *= step.a : scale /= step.a;
    return true;
  }

  /// An operand without the number that it is multiplied by.
  int without_factor(int value, Match& match) {
    Operation* const op = only_for(value);
    const auto pointwise = op == nullptr ? std::nullopt : problem_of<PointwiseProblem>(*op);
    if (!pointwise || op->inputs.size() != 1 || pointwise->compute != DType::f32) return value;
    if (shape(op->inputs[0]) != shape(value)) return value;
    double scale = match.scale;
    for (const PointwiseStep& step : pointwise->chain) {
      if (!take_factor(step, scale)) return value;
    }
    match.scale = scale;
    match.parts.push_back(op);
    return op->inputs[0];
  }

  /// Scores are scaled first and masked then.
  bool match_scores(Operation& op, Match& match) {
    const auto pointwise = problem_of<PointwiseProblem>(op);
    if (!pointwise || pointwise->compute != DType::f32) return false;
    for (std::size_t i = 0; i < pointwise->chain.size(); ++i) {
      const PointwiseStep& step = pointwise->chain[i];
      const bool last = i + 1 == pointwise->chain.size();
      if (take_factor(step, match.scale)) continue;
      if (!last || step.function != Pointwise::add || step.operand != 1 || op.inputs.size() != 2) return false;
      match.mask = op.inputs[1];
      if (shape(match.mask).rank() > 4 || program_.value(match.mask).format.dtype != DType::f32) return false;
    }
    return shape(op.inputs[0]) == shape(op.output);
  }

  std::optional<Match> match(Operation& last) {
    const auto product = problem_of<MatMulProblem>(last);
    if (!product || product->transpose_a || product->transpose_b || product->alpha != 1) return std::nullopt;
    Match match;
    match.v = last.inputs[1];
    Operation* op = only_for(last.inputs[0]);
    const auto softmax = op == nullptr ? std::nullopt : problem_of<SoftmaxProblem>(*op);
    if (!softmax || softmax->kind != SoftmaxKind::softmax || shape(op->output).rank() != 4 || softmax->dim != 3) {
      return std::nullopt;
    }
    match.parts.push_back(op);
    if ((op = only_for(op->inputs[0])) == nullptr) return std::nullopt;
    if (match_scores(*op, match)) {
      match.parts.push_back(op);
      if ((op = only_for(op->inputs[0])) == nullptr) return std::nullopt;
    }
    const auto scores = problem_of<MatMulProblem>(*op);
    if (!scores || scores->transpose_a) return std::nullopt;
    match.parts.push_back(op);
    match.scale *= scores->alpha;
    match.q = without_factor(op->inputs[0], match);
    match.k = without_factor(op->inputs[1], match);
    if (!scores->transpose_b && !turn_back(match)) return std::nullopt;
    if (!fits(last, match)) return std::nullopt;
    return match;
  }

  /// k' [.., D, S] is written by a move that can write k as well.
  bool turn_back(Match& match) {
    match.turn = only_for(match.k);
    auto move = match.turn == nullptr ? std::nullopt : problem_of<MoveProblem>(*match.turn);
    if (!move) return false;
    // The axes of the last dimension, and of the one before it.
    const Shape& to = shape(match.k);
    auto end = move->axes.end(), middle = end;
    for (std::int64_t count = 1; count < to[-1] && middle != move->axes.begin();) count *= (--middle)->extent;
    auto begin = middle;
    for (std::int64_t count = 1; count < to[-2] && begin != move->axes.begin();) count *= (--begin)->extent;
    const auto extent = [](auto from, auto until) {
      std::int64_t count = 1;
      for (; from != until; ++from) count *= from->extent;
      return count;
    };
    if (extent(middle, end) != to[-1] || extent(begin, middle) != to[-2]) return false;
    std::rotate(begin, middle, end);
    match.turned = std::move(*move);
    return true;
  }

  static Shape with_last_two_swapped(Shape shape) {
    const std::int64_t last = shape[-1];
    shape.set(-1, shape[-2]);
    shape.set(-2, last);
    return shape;
  }

  AttentionProblem problem(const Match& match) const { return {.scale = match.scale}; }

  std::vector<int> operands(const Match& match) const {
    std::vector<int> values = {match.q, match.k, match.v};
    if (match.mask != none) values.push_back(match.mask);
    return values;
  }

  /// Whether there is a kernel for it.
  bool fits(const Operation& last, const Match& match) {
    for (const int value : {match.q, match.k, match.v, last.output}) {
      if (shape(value).rank() != 4 || program_.value(value).format.dtype != DType::f32) return false;
    }
    const Shape k = shape(match.k);
    if (match.turn != nullptr) program_.value(match.k).shape = with_last_two_swapped(k);
    const bool taken = takes(attention(last, match));
    program_.value(match.k).shape = k;
    return taken;
  }

  Operation attention(const Operation& last, const Match& match) const {
    Operation op = last;
    op.module = std::make_shared<Fixed<AttentionProblem>>(problem(match), shape(last.output), DType::f32);
    op.inputs = operands(match);
    return op;
  }

  bool takes(const Operation& op) const {
    PreparedViews views(program_, op, options_);
    return std::ranges::any_of(formats(program_.value(op.output), options_),
                               [&](Format format) { return op.module->takes(views.with(format, format)); });
  }

  void replace(Operation& last, const Match& match) {
    if (match.turn != nullptr) {
      Program::Value& k = program_.value(match.k);
      k.shape = with_last_two_swapped(k.shape);
      match.turn->module = std::make_shared<Fixed<MoveProblem>>(*match.turned, k.shape, DType::f32);
    }
    Operation op = attention(last, match);
    for (Operation* const part : match.parts) {
      op.fused += (op.fused.empty() ? "" : ", ") + part->name;
      part->module = nullptr;
    }
    last = std::move(op);
  }

  Program& program_;
  const CompileOptions& options_;
  std::vector<int> readers_, producer_;  // by value
};

}  // namespace

void find_attention(Program& program, const CompileOptions& options) { Finder(program, options).find(); }

}  // namespace lamina::detail
