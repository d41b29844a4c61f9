// Folding: operations that become part of the one before them.

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/compile/dataflow.h"
#include "lamina/layers/absorption.h"
#include "lamina/layers/batch_norm2d.h"
#include "lamina/layers/elementwise.h"

namespace lamina::detail {
namespace {

/// Of an operation that may become part of another: the time grows with the square of their number.
constexpr std::size_t max_operands = 64;

class Folder : Dataflow {
 public:
  using Dataflow::Dataflow;

  void fold() {
    for (int i = 0, count = static_cast<int>(program_.operations.size()); i < count; ++i) {
      put_factor_last(operation(i));
      if (read_equal(i) || merge_past(i)) continue;
      const int at = merge(i);
      // x f(x) may have become one function of x, which can now become part of the operation that computes x.
      if (at != none && operation(at).inputs.size() == 1 && !operation(at).view && !merge_past(at)) merge(at);
    }
    finish();
  }

 private:
  /// Exporters write a pooling or a reduction once for each reader. If operation i is one, and an earlier operation
  /// does the same to the same value, the readers of i read that one instead.
  bool read_equal(int i) {
    const Operation& op = operation(i);
    const auto pool = solved_by<PoolProblem>(&op);
    const auto reduce = solved_by<ReduceProblem>(&op);
    if ((!pool && !reduce) || is_output(op.output) || readers(op.inputs[0]).size() > max_operands) return false;
    for (const int other : readers(op.inputs[0])) {
      if (other == none || other >= i || shape(operation(other).output) != shape(op.output)) continue;
      if (problem_of<PoolProblem>(operation(other)) != pool || problem_of<ReduceProblem>(operation(other)) != reduce)
        continue;
      read_instead(op.output, operation(other).output);
      return true;
    }
    return false;
  }

  /// Makes (a x) y into (x y) a if others read x too: x and y may be the two parts of one function, as GELU has them.
  void put_factor_last(Operation& op) {
    const PointwiseStep product = {.function = Pointwise::mul, .operand = 1};
    const PointwiseChain* const chain = op.module == nullptr ? nullptr : chain_of(*op.module);
    if (chain == nullptr || *chain != PointwiseChain{product}) return;
    for (std::size_t place = 0; place < op.inputs.size(); ++place) {
      Operation* const factor = only_for(op.inputs[place]);
      const PointwiseChain* const times = factor == nullptr ? nullptr : chain_of(*factor->module);
      if (times == nullptr || times->size() != 1 || (*times)[0].function != Pointwise::mul ||
          (*times)[0].operand >= 0 || factor->inputs[0] == op.inputs[1 - place] ||
          readers(factor->inputs[0]).size() < 2)
        continue;
      Operation longer = op;
      longer.inputs[place] = factor->inputs[0];
      longer.module = std::make_shared<Elementwise>(PointwiseChain{product, (*times)[0]});
      take_names(longer, *factor);
      return replace(op, std::move(longer));
    }
  }

  /// Makes operation i part of an operation that computes one of its inputs, if nobody else reads that input and the
  /// joined operation has a kernel. Returns the operation that now does both, or none.
  int merge(int i) {
    const std::vector<int> inputs = operation(i).inputs;
    if (inputs.size() > max_operands) return none;
    std::vector<std::size_t> places;
    for (std::size_t place = 0; place < inputs.size(); ++place) {
      if (only_for(inputs[place]) != nullptr) places.push_back(place);
    }
    // Prefers operations that do more than elementwise functions, and among those the last one: it can stay where it
    // is, behind all others.
    const auto rank = [&](std::size_t place) {
      const int at = producer(inputs[place]);
      return std::pair(dynamic_cast<const Elementwise*>(operation(at).module.get()) == nullptr, at);
    };
    std::ranges::sort(places, std::ranges::greater(), rank);
    for (const std::size_t place : places) {
      if (const int at = merge(i, place); at != none) return at;
    }
    return none;
  }

  /// Whether a norm is the value's only reader. A norm sees past a change of shape that keeps its rows, and so reads an
  /// image as it is stored.
  bool is_for_norm(int value) const {
    const int reader = only_reader(value);
    return reader != none && problem_of<NormProblem>(operation(reader)).has_value();
  }

  int merge(int i, std::size_t place) {
    Operation& next = operation(i);
    const int source = next.inputs[place], at = producer(source);
    Operation& before = operation(at);
    if (next.inputs.size() > 1 && (before.view || shape(source) != shape(next.output))) return none;
    if (next.view && is_for_norm(next.output)) return none;
    Operation longer;  // names are set below
    longer.inputs = before.inputs, longer.output = next.output;
    std::vector<Module::Operand> operands(next.inputs.size());
    for (std::size_t n = 0; n < next.inputs.size(); ++n) {
      if (n == place) continue;
      const int input = next.inputs[n];
      const auto known = std::ranges::find(longer.inputs, input);
      operands[n] = {static_cast<int>(known - longer.inputs.begin()), program_.value(input).constant};
      if (known == longer.inputs.end()) longer.inputs.push_back(input);
    }
    const auto absorbed = at_node(next.name, [&] { return before.module->absorb(*next.module, operands); });
    longer.module = absorbed.module;
    if (absorbed.parameters) longer.inputs = before.inputs;
    if (longer.module == nullptr) return none;
    // Known numbers are an operand, and not parameters, only where there is one image, which they are as large as.
    const auto is_known = [](const Module::Operand& operand) { return operand.constant.defined(); };
    if (options_.batch_invariant && !absorbed.parameters && std::ranges::any_of(operands, is_known)) return none;
    longer.view = before.view && longer.module->is_view({&shape(longer.inputs[0]), 1});
    if (!longer.view && !has_paying_kernel(longer)) return none;

    const bool is_own = before.view;  // the operation that follows a view takes the view in, and keeps its own name
    longer.name = std::move(is_own ? next.name : before.name);
    longer.fused = std::move(is_own ? next.fused : before.fused);
    if (!is_own && (!next.view || problem_of<MoveProblem>(before))) take_names(longer, next);
    program_.value(longer.output).name = program_.value(source).name;
    // It stands in the place of the first operation or, if it has more inputs than that one had, of the second: they
    // are computed by then.
    if (longer.inputs.size() > before.inputs.size()) {
      replace(next, std::move(longer));
      return i;
    }
    replace(before, std::move(longer));
    drop(next);
    return at;
  }

  /// A function; with a number for each row or channel, if its second operand is such numbers.
  struct Done {
    std::shared_ptr<const Module> module;
    Tensor numbers = {};
  };

  /// The functions that an operation applies to input `place`, if its other input is known; nothing if it does anything
  /// else.
  std::vector<Done> done_by(const Operation& op, std::size_t place) const {
    if (const auto* norm = dynamic_cast<const BatchNorm2d*>(op.module.get()); norm != nullptr) {
      const auto [scale, shift] = norm->coefficients();
      const auto step = [&](Pointwise function, const std::vector<double>& numbers) {
        const Shape shape = {static_cast<std::int64_t>(numbers.size()), 1, 1};
        return Done{std::make_shared<Elementwise>(PointwiseChain{{.function = function, .operand = 1}}),
                    Tensor::from(numbers, shape).to(DType::f32)};
      };
      return {step(Pointwise::mul, scale), step(Pointwise::add, shift)};
    }
    if (chain_of(*op.module) == nullptr || op.inputs.size() > 2) return {};
    const Tensor numbers = op.inputs.size() == 2 ? program_.value(op.inputs[1 - place]).constant : Tensor();
    if (op.inputs.size() == 2 && (!numbers.defined() || numbers.dtype() != DType::f32)) return {};
    return {{op.module, numbers}};
  }

  /// Whether an operation is a move that leaves nothing out and adds nothing. Functions of single elements may then be
  /// applied before it instead of after it.
  bool moves_all(const Operation& op) const {
    const auto move = move_of(&op);
    const auto is_inside = [](const MoveProblem::Axis& axis) {
      return std::ranges::all_of(axis.offsets, [](std::int64_t offset) { return offset >= 0; });
    };
    return move && shape(op.inputs[0]).numel() <= shape(op.output).numel() &&
           std::ranges::all_of(move->axes, is_inside);
  }

  /// Lets an elementwise operation behind a change of shape, a concatenation or a move be done in front of that, by the
  /// operations that compute its operands, if those have no other readers and all of them take the function in.
  bool merge_past(int i) {
    Operation& next = operation(i);
    if (next.view || next.inputs.empty() || shape(next.output).rank() < 2) return false;
    const std::size_t place = program_.value(next.inputs[0]).constant.defined() ? 1 : 0;
    Operation* const between = place < next.inputs.size() ? only_for(next.inputs[place]) : nullptr;
    if (between == nullptr || shape(between->output) != shape(next.output)) return false;
    const Program::Value &from = program_.value(between->output), &to = program_.value(next.output);
    if (from.format.dtype != to.format.dtype || from.quantization != to.quantization) return false;
    const auto concat = solved_by<ConcatProblem>(between);
    const bool moves = !between->view && !concat && moves_all(*between);
    if (!between->view && !moves && (!concat || concat->dim != 1)) return false;
    const int axis = concat ? 1 - static_cast<int>(shape(next.output).rank()) : -1;
    const std::vector<Done> done = done_by(next, place);
    std::vector<Operation> longer;
    std::int64_t first = 0;
    for (const int input : between->inputs) {
      Operation* const part = done.empty() ? nullptr : only_for(input);
      if (part == nullptr || part->view || part->second_output != none || shape(input).rank() < 2) return false;
      longer.push_back(*part);
      for (const auto& [module, numbers] : done) {
        std::vector<Module::Operand> operands(numbers.defined() ? 2 : 1);
        if (numbers.defined()) {
          const bool fits = !moves && extent(next.output, axis) == numbers.numel() &&
                            extent_of(numbers.shape(), axis) == numbers.numel() &&
                            (concat || extent(input, -1) == numbers.numel());
          if (!fits) return false;
          operands[1 - place] = {
              1, concat ? channels_of(numbers, first, shape(input)[1]) : numbers.view({numbers.numel()})};
        }
        const Module::Absorbed absorbed = longer.back().module->absorb(*module, operands);
        if (absorbed.module == nullptr || (numbers.defined() && !absorbed.parameters)) return false;
        longer.back().module = absorbed.module;
      }
      if (!has_paying_kernel(longer.back())) return false;
      take_names(longer.back(), next);
      first += concat ? shape(input)[1] : 0;
    }
    for (std::size_t k = 0; k < longer.size(); ++k) replace(*only_for(between->inputs[k]), std::move(longer[k]));
    Operation then = *between;
    then.output = next.output;
    program_.value(next.output).name = program_.value(between->output).name;
    replace(*between, std::move(then));
    drop(next);
    return true;
  }

  /// Those of the numbers [C, 1, ...] that belong to `count` channels from `first` on.
  static Tensor channels_of(const Tensor& numbers, std::int64_t first, std::int64_t count) {
    Shape shape = numbers.shape();
    for (int d = 0; d < static_cast<int>(shape.rank()); ++d) shape.set(d, shape[d] == numbers.numel() ? count : 1);
    return numbers.view({numbers.numel()}).slice(first, first + count).view(shape).clone();
  }
};

}  // namespace

void fold(Program& program, const CompileOptions& options) { Folder(program, options).fold(); }

}  // namespace lamina::detail
