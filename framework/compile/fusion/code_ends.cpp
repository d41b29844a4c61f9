// Lets convolutions in eight bits do what stands before and behind them. Such a kernel can round its operand to codes,
// add its bias to its sums and round these to codes. Then it can give the numbers that these stand for, add them to
// others and round again, look codes up in a table, or find the largest of a window. The bits are those of the separate
// operations, except that a whole bias is not rounded by itself (WholeBiases).

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "lamina/compile/dataflow.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/linear.h"

namespace lamina::detail {
namespace {

/// If a bias in floats is a whole number of the sums' units, as quantisers write it behind a MatMul, it is added to the
/// sums of codes. So there is only one rounding, that of the sums.
class WholeBiases : Dataflow {
 public:
  using Dataflow::Dataflow;

  void find() {
    for (Operation& op : program_.operations) take<Conv2d>(op) || take<Linear>(op);
    finish();
  }

 private:
  template <class Layer>
  bool take(Operation& op) {
    const auto* const layer = dynamic_cast<const Layer*>(op.module.get());
    if (layer == nullptr || !layer->options().bias || !is_coded(op.inputs[0])) return false;
    EightBitWeights eight = layer->eight_bits();
    if (!eight.defined() || eight.bias.defined()) return false;
    if (!set_whole_bias(eight, layer->bias(), program_.value(op.inputs[0]).quantization.scale)) return false;
    Operation whole = op;
    const auto copy = std::make_shared<Layer>(*layer);
    copy->set_eight_bits(std::move(eight));
    whole.module = copy;
    if (!has_paying_kernel(whole)) return false;
    replace(op, std::move(whole));
    return true;
  }
};

/// If a value depends on the codes of one other value alone, even through several steps that round, one table of 256
/// codes gives it: x times its sigmoid, a GELU in steps.
class Tables : Dataflow {
 public:
  using Dataflow::Dataflow;

  void compose() {
    for (Operation& op : program_.operations) {
      const auto problem = solved_by<PointwiseProblem>(&op);
      if (!problem || problem->compute != DType::f32 || !is_coded(op.output) || is_output(op.output)) continue;
      if (const auto table = table_of(*problem, op)) take(op, root_of(op.inputs[0]), *table);
    }
    finish();
  }

 private:
  struct Known {
    int root;  // the value
    CodeTable table;
  };

  int root_of(int value) const { return known_.contains(value) ? known_.at(value).root : value; }

  /// Whether every kernel gives the same bits for a step.
  static bool is_exact(const PointwiseStep& step) {
    using enum Pointwise;
    const Pointwise exact[] = {identity, add, sub, mul, min, max, relu, clip};
    return std::ranges::find(exact, step.function) != std::end(exact);
  }

  std::optional<CodeTable> table_of(const PointwiseProblem& problem, const Operation& op) const {
    std::vector<View> views;
    std::vector<CodeTable> of;
    for (const int input : op.inputs) {
      if (!is_coded(input) || shape(input) != shape(op.output) || root_of(input) != root_of(op.inputs[0])) return {};
      views.push_back(view(input)), of.emplace_back();
      std::iota(of.back().begin(), of.back().end(), std::uint8_t{0});
      if (known_.contains(input)) of.back() = known_.at(input).table;
    }
    if (!std::ranges::all_of(problem.chain, is_alone) && !std::ranges::all_of(problem.chain, is_exact)) return {};
    const View result = view(op.output);
    return code_table(problem, {.inputs = views, .outputs = {&result, 1}, .device = {}}, of);
  }

  void take(Operation& op, int root, const CodeTable& table) {
    known_.insert_or_assign(op.output, Known{root, table});
    if (op.inputs == std::vector{root}) return;
    Operation shorter = op;
    shorter.module = std::make_shared<Elementwise>(PointwiseChain{look_up(std::make_shared<const CodeTable>(table))});
    shorter.inputs = {root};
    if (has_paying_kernel(shorter)) replace(op, std::move(shorter));
  }

  std::map<int, Known> known_;  // by value: of which value it is a table
};

class CodeEnds : Dataflow {
 public:
  using Dataflow::Dataflow;

  void join_all() {
    for (Operation& op : program_.operations) join_one(op);
    finish();
  }

 private:
  void join_one(Operation& op) {
    round_operand(op), pool(op);
    const auto after = solved_by<PointwiseProblem>(&op);
    if (!after || after->compute != DType::f32) return;
    if (!is_coded(op.output)) {
      if (after->chain == PointwiseChain{{Pointwise::identity}}) read<ConvProblem>(op) || read<LinearProblem>(op);
      return;
    }
    if (op.inputs.size() == 1 && (end_in_table<ConvProblem>(op, *after) || end_in_table<LinearProblem>(op, *after)))
      return;
    if (op.inputs.size() != 2) return;
    const bool first = program_.value(op.inputs[0]).constant.defined();
    if (first || program_.value(op.inputs[1]).constant.defined()) {
      const std::size_t place = first ? 1 : 0;
      take_known<ConvProblem>(op, *after, place, 2) || take_known<LinearProblem>(op, *after, place, 0);
      return;
    }
    // Joins with the later of the two convolutions that compute the operands, since the other operand is computed by
    // then.
    const int later = producer(op.inputs[0]) > producer(op.inputs[1]) ? 0 : 1;
    for (const int place : {later, 1 - later}) {
      const int other = op.inputs[index(1 - place)];
      auto problem = product_of<ConvProblem>(op.inputs[index(place)]);
      if (!problem || !ends_in_codes(*problem)) continue;
      std::ranges::copy(after->chain, std::back_inserter(problem->epilogue.chain));
      Operation& conv = operation(producer(op.inputs[index(place)]));
      if (join(op, {conv.inputs[0], other}, *std::move(problem), {&conv})) return;
    }
  }

  /// Lets a convolution round its operand to codes, if nobody else reads those codes.
  void round_operand(Operation& op) {
    auto problem = of_codes(op);
    Operation* const rounding = problem ? only_computes(op.inputs[0]) : nullptr;
    const auto before = solved_by<PointwiseProblem>(rounding);
    if (!before || before->chain != PointwiseChain{{Pointwise::identity}}) return;
    if (!is_coded(rounding->output) || is_coded(rounding->inputs[0])) return;
    problem->prologue = {rounding_to(rounding->output)};
    join(op, {rounding->inputs[0]}, *std::move(problem), {rounding});
  }

  void pool(Operation& op) {
    const auto pool = solved_by<PoolProblem>(&op);
    if (!pool || pool->kind != PoolKind::largest || !is_coded(op.inputs[0]) || !is_coded(op.output)) return;
    Operation* const product = only_computes(op.inputs[0]);
    auto problem = product == nullptr ? std::nullopt : of_codes(*product);
    if (!problem || problem->epilogue.pool) return;
    problem->epilogue.pool = pool->geometry;
    join(op, product->inputs, *std::move(problem), {product});
  }

  template <class Problem>
  bool read(Operation& op) {
    auto problem = product_of<Problem>(op.inputs[0]);
    if (!problem || !ends_in_codes(*problem)) return false;
    Operation& product = operation(producer(op.inputs[0]));
    return join(op, product.inputs, *std::move(problem), {&product});
  }

  template <class Problem>
  bool end_in_table(Operation& op, const PointwiseProblem& after) {
    auto problem = product_of<Problem>(op.inputs[0]);
    const View from = view(op.inputs[0]), to = view(op.output);
    const Preparation p = {.inputs = {&from, 1}, .outputs = {&to, 1}, .device = {}};
    if (!problem || !is_code_table(after, p)) return false;
    if (!ends_in_codes(*problem)) problem->epilogue.chain.push_back(rounding_to(op.inputs[0]));
    problem->epilogue.chain.push_back(look_up(std::make_shared<const CodeTable>(code_table(after, p))));
    Operation& product = operation(producer(op.inputs[0]));
    return join(op, product.inputs, *std::move(problem), {&product});
  }

  /// Joins an operation with known numbers for each channel; `trailing` extents stand behind that of the channels.
  template <class Problem>
  bool take_known(Operation& op, const PointwiseProblem& after, std::size_t place, int trailing) {
    auto problem = product_of<Problem>(op.inputs[place]);
    const int numbers = op.inputs[1 - place];
    const Tensor& known = program_.value(numbers).constant;
    const std::int64_t channels = extent(op.output, -1 - trailing);
    const bool of_channels =
        known.numel() == channels && extent_of(known.shape(), -1 - trailing) == channels && known.dtype() == DType::f32;
    if (!problem || !ends_in_codes(*problem) || !of_channels || after.chain.size() != 1) return false;
    problem->epilogue.chain.push_back(after.chain[0]);
    Operation& product = operation(producer(op.inputs[place]));
    return join(op, {product.inputs[0], numbers}, *std::move(problem), {&product});
  }

  template <class Problem>
  static bool ends_in_codes(const Problem& problem) {
    return problem.epilogue.chain.back().function == Pointwise::to_codes;
  }

  /// The problem of the product that computes a value with one reader and rounds it to codes. Known numbers may be
  /// applied behind the rounding.
  template <class Problem>
  std::optional<Problem> product_of(int value) const {
    if (!is_coded(value) || readers(value).size() != 1 || producer(value) == none) return {};
    const Operation& product = operation(producer(value));
    auto problem = problem_of<Problem>(product);
    if (!problem || !problem->eight.defined() || problem->epilogue.table() || problem->epilogue.pool) return {};
    if (problem->epilogue.rounds()) {
      const bool known = product.inputs.size() == 2 && program_.value(product.inputs[1]).constant.defined();
      return known ? problem : std::nullopt;
    }
    if (product.inputs.size() != 1 || !problem->epilogue.chain.empty()) return {};
    problem->epilogue.chain = {rounding_to(value)};
    return problem;
  }
};

}  // namespace

void end_with_codes(Program& program, const CompileOptions& options) {
  WholeBiases(program, options).find();
  Tables(program, options).compose();
  CodeEnds(program, options).join_all();
}

}  // namespace lamina::detail
