// Attention as exporters spell it out: softmax(scale * q k' + mask) v, a product of matrices, functions of its
// elements, a softmax and another product, become the one operation that keeps no matrix of scores. Between the
// products the scores may be seen under other shapes: networks of shifted windows have masks for the windows of an
// image. Several masks are added up if they are known.

#include <algorithm>
#include <optional>

#include "lamina/compile/dataflow.h"
#include "lamina/compile/fusion/attention_masks.h"
#include "lamina/compile/program.h"
#include "lamina/kernel/rules/move/compose.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/fixed.h"
#include "lamina/layers/softmax.h"
#include "lamina/layers/views.h"

namespace lamina::detail {
namespace {

class Finder : Dataflow {
 public:
  using Dataflow::Dataflow;

  void find() {
    for (Operation& op : program_.operations) {
      if (const auto found = match(op)) put(op, *found);
    }
    finish();
  }

 private:
  /// The parts of an attention, as they are found from the last operation to the first.
  struct Match {
    std::vector<Operation*> parts;  // all but the last product
    int q = none, k = none, v = none, mask = none, factors = none;
    double scale = 1;
    std::vector<std::pair<int, Shape>> masks{};   // the masks, and the shapes of the scores that each is added to
    std::int64_t images = 1, heads = 0;           // extents of the four-dimensional problem
    std::vector<std::pair<int, Shape>> shapes{};  // values that are to get another shape for that problem
    std::vector<std::pair<int, Shape>> seen{};    // the same of values with other readers, which get a view
    std::optional<MoveProblem> turned{};          // the move that writes k, made of the one that writes k'
  };

  /// The operation that computes a value for one reader. Views between them that keep the matrices become parts of the
  /// match.
  Operation* behind_views(int value, Match& match) {
    Operation* op = only_for(value);
    for (; op != nullptr && op->view; op = only_for(op->inputs[0])) {
      const Shape &from = shape(op->inputs[0]), &to = shape(op->output);
      if (from.rank() < 2 || to.rank() < 2 || from[-1] != to[-1] || from[-2] != to[-2]) return nullptr;
      match.parts.push_back(op);
    }
    return op;
  }

  /// Multiplies `scale` by a step's number, if the step multiplies or divides by one.
  static bool take_factor(const PointwiseStep& step, double& scale) {
    if (step.operand >= 0 || (step.function != Pointwise::mul && step.function != Pointwise::div)) return false;
    step.function == Pointwise::mul ? scale *= step.a : scale /= step.a;
    return true;
  }

  /// Takes known factors, one for each head, out of a step that multiplies by them.
  bool take_factors(const PointwiseStep& step, const Operation& op, Match& match) const {
    if (step.function != Pointwise::mul || step.operand < 1 || match.factors != none) return false;
    const Program::Value& value = program_.value(op.inputs[index(step.operand)]);
    if (!value.constant.defined() || value.format.dtype != DType::f32) return false;
    if (value.shape.rank() > 4 || value.shape.numel() != extent_of(value.shape, -3)) return false;
    match.factors = op.inputs[index(step.operand)];
    return true;
  }

  /// The operand before it is multiplied by a number, which goes into the scale.
  int without_factor(int value, Match& match) {
    Operation* const op = only_for(value);
    const auto pointwise = solved_by<PointwiseProblem>(op);
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

  /// Matches operations, of which `op` is the last, that first scale the scores and then add masks. Returns the
  /// operation before them.
  Operation* match_scores(Operation* op, Match& match) {
    bool scaled = false;
    while (op != nullptr) {
      const auto pointwise = problem_of<PointwiseProblem>(*op);
      if (!pointwise || pointwise->compute != DType::f32 || shape(op->inputs[0]) != shape(op->output)) break;
      for (auto step_at = pointwise->chain.rbegin(); step_at != pointwise->chain.rend(); ++step_at) {
        const PointwiseStep& step = *step_at;
        if (take_factor(step, match.scale) || take_factors(step, *op, match)) {
          scaled = true;
          continue;
        }
        if (scaled || step.function != Pointwise::add || step.operand < 1) return nullptr;
        const int mask = op->inputs[index(step.operand)];
        if (program_.value(mask).format.dtype != DType::f32) return nullptr;
        match.masks.emplace_back(mask, shape(op->output));
      }
      match.parts.push_back(op);
      op = behind_views(op->inputs[0], match);
    }
    return op;
  }

  std::optional<Match> match(Operation& last) {
    const auto product = problem_of<MatMulProblem>(last);
    if (!product || product->transpose_a || product->transpose_b || product->alpha != 1) return std::nullopt;
    Match match;
    match.v = last.inputs[1];
    Operation* op = behind_views(last.inputs[0], match);
    const auto softmax = solved_by<SoftmaxProblem>(op);
    if (!softmax || softmax->kind != SoftmaxKind::softmax ||
        softmax->dim + 1 != static_cast<int>(shape(op->output).rank())) {
      return std::nullopt;
    }
    match.parts.push_back(op);
    op = match_scores(behind_views(op->inputs[0], match), match);
    const auto scores = solved_by<MatMulProblem>(op);
    if (!scores || scores->transpose_a) return std::nullopt;
    match.parts.push_back(op);
    match.scale *= scores->alpha;
    match.q = without_factor(op->inputs[0], match);
    match.k = without_factor(op->inputs[1], match);
    if (!scores->transpose_b && !turn_back(match)) return std::nullopt;
    if (!divide(last, match) || !take_masks(match) || !fits(last, match)) return std::nullopt;
    return match;
  }

  /// Settles which of the matrices are images and which are heads, and gives operands and result four dimensions.
  bool divide(const Operation& last, Match& match) {
    const Shape& result = shape(last.output);
    std::int64_t matrices = 1;
    for (std::size_t d = 0; d + 2 < result.rank(); ++d) matrices *= result[static_cast<int>(d)];
    match.heads = result.rank() == 4 ? result[1] : 0;
    for (const Operation* const part : match.parts) {  // heads are the dimension in front of the rows, if any
      if (match.heads == 0 && shape(part->output).rank() > 3) match.heads = shape(part->output)[-3];
    }
    for (const int value : {match.v, match.q, match.k}) {
      if (match.heads == 0) match.heads = heads_as_moved(value, matrices);
    }
    if (match.heads == 0) match.heads = 1;
    match.images = matrices / match.heads;
    if (match.factors != none && shape(match.factors)[-3] != match.heads) return false;
    for (const int value : {match.q, match.k, match.v, last.output}) {
      const bool turned = value == match.k && match.turned;  // even if both shapes are equal: of square matrices
      const Shape own = turned ? with_last_two_swapped(shape(value)) : shape(value);
      if (own.rank() < 3) return false;
      const bool fits = own.rank() == 4 && result.rank() == 4;
      const Shape wanted = fits ? own : Shape{match.images, match.heads, own[-2], own[-1]};
      if (wanted.numel() != own.numel()) return false;
      if (own != wanted && value != last.output && only_move(value) == nullptr) {
        if (!see(match, value, wanted)) return false;
        continue;
      }
      if (wanted != shape(value) || turned) match.shapes.emplace_back(value, wanted);
      if (own != wanted && value == last.output && !any_shape_is_read(value)) return false;
    }
    return true;
  }

  /// How many heads the axes of the move tell that writes a value of so many matrices: the extent of the axis around a
  /// matrix. 0 if they tell nothing.
  std::int64_t heads_as_moved(int value, std::int64_t matrices) {
    const Operation* const move = only_move(value);
    if (move == nullptr) return 0;
    const std::vector<MoveProblem::Axis> axes = problem_of<MoveProblem>(*move)->axes;
    std::int64_t rest = shape(value)[-2] * shape(value)[-1];
    if (rest * matrices == 0) return 0;
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      if (rest == 1 && axis->extent > 1) return matrices % axis->extent == 0 ? axis->extent : 0;
      if (rest % axis->extent != 0) return 0;
      rest /= axis->extent;
    }
    return 0;
  }

  /// Notes the shape under which an operand will be read; false if another shape is noted already.
  static bool see(Match& match, int value, const Shape& as) {
    const auto found = std::ranges::find(match.seen, value, &std::pair<int, Shape>::first);
    if (found != match.seen.end()) return found->second == as;
    match.seen.emplace_back(value, as);
    return true;
  }

  /// The move that computes a value with one reader; else null.
  Operation* only_move(int value) {
    Operation* const op = only_for(value);
    return op != nullptr && !op->view && problem_of<MoveProblem>(*op) ? op : nullptr;
  }

  /// Finds one operand for all masks: the one mask that there is, or the sum of known masks.
  bool take_masks(Match& match) {
    if (match.masks.empty()) return true;
    const auto& [first, scores] = match.masks[0];
    if (match.masks.size() == 1 && scores.rank() == 4 && shape(first).rank() <= 4 && scores[1] == match.heads &&
        scores[0] == match.images) {
      match.mask = first;
      return true;
    }
    const Shape& mask = shape(first);
    if (match.masks.size() == 1 && scores.rank() == 3 && mask.rank() == 3) {
      const bool each = mask[0] == match.images * match.heads;
      match.mask = first;
      return (each || mask[0] == 1) &&
             see(match, first, Shape{each ? match.images : 1, each ? match.heads : 1, mask[-2], mask[-1]});
    }
    std::vector<ScoreMask> masks;
    for (const auto& [value, of] : match.masks) {
      const Tensor& known = program_.value(value).constant;
      if (!known.defined() || known.dtype() != DType::f32) return false;
      masks.push_back({known, of});
    }
    auto sum = sum_of_masks(masks, match.images, match.heads);
    if (!sum) return false;
    match.mask = new_value(program_.value(first).name + " and others", sum->shape(), *sum);
    return true;
  }

  /// Whether k' [.., D, S] is written by a move that could write k instead.
  bool turn_back(Match& match) {
    const Operation* const turn = only_move(match.k);
    if (turn != nullptr) match.turned = with_last_two_swapped(*problem_of<MoveProblem>(*turn), shape(match.k));
    return match.turned.has_value();
  }

  /// Gives values these shapes; a second call gives them back the shapes that they had.
  void exchange(std::vector<std::pair<int, Shape>>& shapes) {
    for (auto& [value, shape] : shapes) std::swap(program_.value(value).shape, shape);
  }

  /// The operand under the shape that is noted for it, if there is one.
  int as_seen(int operand, const Match& match, const Operation& last) {
    const auto seen = std::ranges::find(match.seen, operand, &std::pair<int, Shape>::first);
    if (seen == match.seen.end()) return operand;
    Operation view =
        operation_of(program_.value(operand).name, std::make_shared<Reshape>(seen->second), {operand}, seen->second);
    view.view = true;
    return insert(last, std::move(view));
  }

  /// Whether a kernel takes the attention and pays.
  bool fits(const Operation& last, Match& match) {
    for (const int value : {match.q, match.k, match.v, last.output}) {
      if (program_.value(value).format.dtype != DType::f32) return false;
    }
    exchange(match.shapes), exchange(match.seen);
    const bool taken = has_paying_kernel(attention(last, match));
    exchange(match.shapes), exchange(match.seen);
    return taken;
  }

  Operation attention(const Operation& last, const Match& match) const {
    Operation op = last;
    const AttentionProblem problem = {.scale = match.scale};
    op.module = std::make_shared<Fixed<AttentionProblem>>(problem, shape(last.output), DType::f32);
    op.inputs = {match.q, match.k, match.v};
    if (match.mask != none) op.inputs.push_back(match.mask);
    return op;
  }

  /// Multiplies the queries by the factors of the heads, in front of `last`, in place of the scores.
  int multiplied(int q, int factors, const Operation& last) {
    auto product = std::make_shared<Elementwise>(PointwiseChain{{.function = Pointwise::mul, .operand = 1}});
    return insert(last, operation_of(last.name + " (queries)", std::move(product), {q, factors}, shape(q)));
  }

  void put(Operation& last, Match match) {
    for (int* const operand : {&match.q, &match.k, &match.v}) *operand = as_seen(*operand, match, last);
    if (match.mask != none) match.mask = as_seen(match.mask, match, last);
    exchange(match.shapes);
    for (const auto& [value, before] : match.shapes) {
      if (value == last.output) continue;
      Operation& move = *only_move(value);
      const MoveProblem problem = value == match.k && match.turned ? *match.turned : *problem_of<MoveProblem>(move);
      move.module = std::make_shared<Fixed<MoveProblem>>(problem, shape(value), DType::f32);
    }
    if (match.factors != none) match.q = multiplied(match.q, match.factors, last);
    Operation op = attention(last, match);
    for (const Operation* const part : match.parts) take_names(op, *part);
    replace(last, std::move(op));
  }
};

}  // namespace

void find_attention(Program& program, const CompileOptions& options) { Finder(program, options).find(); }

}  // namespace lamina::detail
