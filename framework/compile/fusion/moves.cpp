// Simplifies moves of elements before anything is fused. Consecutive moves become one, and moves of whole rows change
// places with operations on single rows. Exporters write seven moves around each product of attention.

#include <algorithm>
#include <optional>

#include "lamina/compile/dataflow.h"
#include "lamina/kernel/rules/move/compose.h"
#include "lamina/kernel/rules/patches.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/fixed.h"
#include "lamina/layers/linear.h"
#include "lamina/layers/views.h"
#include "lamina/ops/quantization.h"

namespace lamina::detail {
namespace {

constexpr std::size_t longest_row = 256;  // of operations looked at together: the time grows with their number

class Moves : Dataflow {
 public:
  using Dataflow::Dataflow;

  void simplify() {
    each_move([&](Operation& op, const MoveProblem& problem) {
      // A move of an image under another shape reads the image itself, which may be channels last.
      if (const int source = behind_views(op.inputs[0]); source != op.inputs[0]) {
        set_move(op, problem, source, shape(op.output));
      }
    });
    each_move([&](Operation& op, const MoveProblem& problem) { join(op, problem); });
    each_move([&](Operation& op, const MoveProblem& problem) {
      if (!sink(op, problem)) hoist(op, problem);
    });
    each_move([&](Operation& op, const MoveProblem& problem) { make_convolution(op, problem); });
    for (Operation& op : program_.operations) {
      if (const auto problem = any_move_of(&op)) make_view(op, *problem);
      if (op.view) lift(op);
    }
    finish();
  }

 private:
  template <class F>
  void each_move(const F& f) {
    for (Operation& op : program_.operations) {
      if (const auto problem = any_move_of(&op)) f(op, *problem);
    }
  }

  /// The value that this one is a view of. Behind very many views, one of the views.
  int behind_views(int value) const {
    const Operation* op = computes(value);
    for (std::size_t steps = 0; steps < longest_row && op != nullptr && op->view; ++steps) {
      value = op->inputs[0], op = computes(value);
    }
    return value;
  }
  /// All operations that read a value under any shape; nothing if the caller reads it, or if there are many readers.
  std::optional<std::vector<int>> all_readers(int value) const {
    std::vector<int> all, views = {value};
    while (!views.empty()) {
      const int view = views.back();
      views.pop_back();
      if (is_output(view) || all.size() + views.size() + readers(view).size() > longest_row) return std::nullopt;
      for (const int reader : readers(view)) {
        operation(reader).view ? views.push_back(operation(reader).output) : all.push_back(reader);
      }
    }
    return all;
  }

  /// As move_of(), but also if the operation is a view.
  std::optional<MoveProblem> any_move_of(const Operation* op) const {
    return op == nullptr || op->inputs.size() != 1 ? std::nullopt : problem_of<MoveProblem>(*op);
  }
  void set_move(Operation& op, const MoveProblem& problem, int source, const Shape& to) {
    const DType dtype = program_.value(op.output).format.dtype;
    replace(op, std::make_shared<Fixed<MoveProblem>>(problem, to, dtype), {source}, to);
  }
  /// Gives an operation another first input, and its result the shape that follows.
  void replace_input(Operation& op, int input, const Shape& to) {
    std::vector<int> inputs = op.inputs;
    inputs[0] = input;
    replace(op, op.module, std::move(inputs), to);
  }

  /// Joins a move with the move before it if that one's readers are all moves, or if it has strides alone: its other
  /// readers may be able to read with them.
  void join(Operation& op, const MoveProblem& second) {
    const int before = op.inputs[0];
    const auto first = any_move_of(computes(before));
    const auto others = first ? all_readers(before) : std::nullopt;
    if (!others) return;
    const bool all_move = std::ranges::all_of(*others, [&](int i) { return any_move_of(&operation(i)).has_value(); });
    const bool steps = std::ranges::all_of(first->axes, [](const auto& axis) { return axis.offsets.empty(); });
    if (!all_move && !steps) return;
    const auto both = composed(second, *first);
    if (both) set_move(op, *both, computes(before)->inputs[0], shape(op.output));
  }

  /// Whether each row of the result, along the last dimension, depends only on the same row of the first input.
  bool is_rowwise(const Operation* op) const {
    if (op == nullptr || op->inputs.empty() || program_.value(op->inputs[0]).constant.defined()) return false;
    const Shape &from = shape(op->inputs[0]), &to = shape(op->output);
    if (to.rank() < 2 || from.rank() != to.rank()) return false;
    if (dynamic_cast<const Linear*>(op->module.get()) != nullptr) return op->inputs.size() == 1;
    const auto constant = [&](int input) {
      const Program::Value& operand = program_.value(input);
      const std::int64_t count = operand.shape.numel();
      return operand.constant.defined() && (count == 1 || (count == to[-1] && extent(input, -1) == count));
    };
    return dynamic_cast<const Elementwise*>(op->module.get()) != nullptr && from == to &&
           std::all_of(op->inputs.begin() + 1, op->inputs.end(), constant);
  }

  /// Whether the operations of `path` can have results of `rank` dimensions: their known operands must broadcast.
  bool can_have(std::size_t rank, const std::vector<int>& path) const {
    return std::ranges::all_of(path, [&](int i) {
      const std::vector<int>& inputs = operation(i).inputs;
      return std::all_of(inputs.begin() + 1, inputs.end(), [&](int input) { return shape(input).rank() <= rank; });
    });
  }

  static Shape with_rows_of(Shape shape, std::int64_t length) {
    shape.set(-1, length);
    return shape;
  }

  /// Puts a move behind the operations on single rows that follow it, if moves follow those.
  bool sink(Operation& op, const MoveProblem& problem) {
    const int source = op.inputs[0];
    const Shape from = shape(source), to = shape(op.output);
    if (from.rank() < 2 || from[-1] != extent_of(to, -1)) return false;
    std::vector<int> path;
    int last = op.output;
    for (int next = only_reader(last); next != none; next = only_reader(last)) {
      if (!is_rowwise(&operation(next)) || operation(next).inputs[0] != last) break;
      path.push_back(next), last = operation(next).output;
    }
    const auto ends = all_readers(last);
    const auto rows = moves_rows(problem, from.numel(), to[-1], shape(last)[-1]);
    if (path.empty() || !ends || ends->empty() || !rows || !can_have(from.rank(), path)) return false;
    std::vector<MoveProblem> joined;
    for (const int end : *ends) {
      const auto move = any_move_of(&operation(end));
      const auto both = move ? composed(*move, *rows) : std::nullopt;
      if (!both) return false;
      joined.push_back(*both);
    }
    put_behind(source, path, from);
    for (std::size_t e = 0; e < ends->size(); ++e) {
      Operation& end = operation((*ends)[e]);
      set_move(end, joined[e], last, shape(end.output));
    }
    return true;
  }

  /// Applies the operations of `path`, which work on single rows, to `value`, in shapes like `rows`; their result.
  int put_behind(int value, const std::vector<int>& path, const Shape& rows) {
    for (const int i : path) {
      Operation& op = operation(i);
      replace_input(op, value, with_rows_of(rows, shape(op.output)[-1]));
      value = op.output;
    }
    return value;
  }

  /// Puts a move in front of the operations on single rows before it, if a move stands in front of those.
  void hoist(Operation& op, const MoveProblem& problem) {
    std::vector<int> path;  // from the last operation to the first
    int first = behind_views(op.inputs[0]);
    const auto read_once = [&](int value) {  // under any shape
      const auto all = all_readers(value);
      return all && all->size() == 1;
    };
    const auto has_its_rows = [&](int value) {  // a view may divide the elements into other rows
      return path.empty() || extent(value, -1) == extent(operation(path.back()).inputs[0], -1);
    };
    while (is_rowwise(computes(first)) && read_once(first) && has_its_rows(first)) {
      path.push_back(producer(first));
      first = behind_views(computes(first)->inputs[0]);
    }
    const Shape to = shape(op.output);
    if (path.empty() || extent(operation(path.front()).output, -1) != extent_of(to, -1)) return;
    if (!can_have(to.rank(), path)) return;
    const auto before = any_move_of(computes(first));
    if (!before || !read_once(first)) return;
    const std::int64_t length = shape(operation(path.back()).inputs[0])[-1];
    const auto rows = moves_rows(problem, shape(operation(path.front()).output).numel(), to[-1], length);
    const auto both = rows ? composed(*rows, *before) : std::nullopt;
    if (!both) return;
    Operation& move = operation(producer(first));
    set_move(move, *both, move.inputs[0], with_rows_of(to, length));
    std::ranges::reverse(path);
    read_instead(op.output, put_behind(first, path, to));
  }

  /// Where the rows of a linear layer become the pixels of images, [N, H, W, C] to [N, C, H, W], and functions follow
  /// (ConvNeXt's factors of channels and residual sums), makes it a 1x1 convolution behind the move, which can take
  /// them in. On a GPU, one of few channels (talking heads) does so whatever follows: it is a Map, which writes any
  /// layout.
  void make_convolution(Operation& op, const MoveProblem& problem) {
    const int source = op.inputs[0];
    const View rows = {.shape = shape(source)}, image = {.shape = shape(op.output), .format = {.layout = Layout::nhwc}};
    if (image.shape.rank() != 4 || rows.shape.rank() != 4 || image.shape[1] != rows.shape[3]) return;
    if (!is_still(problem, {.inputs = {&rows, 1}, .outputs = {&image, 1}, .device = {}})) return;
    const int next = only_reader(op.output);
    if (only_for(source) == nullptr || next == none) return;
    const bool takes_in = dynamic_cast<const Elementwise*>(operation(next).module.get()) != nullptr;
    if (!takes_in && (options_.device.is_cpu() || image.shape[1] > few_channels)) return;
    const auto layer_of = [](const Operation* by) {
      return std::dynamic_pointer_cast<const Linear>(by == nullptr ? nullptr : by->module);
    };
    Operation *product = only_for(source), *last = &op;
    auto linear = layer_of(product);
    std::vector<Operation*> behind;  // a bias, factors
    for (; linear == nullptr && is_rowwise(product) && product->inputs.size() == 2; linear = layer_of(product)) {
      behind.push_back(product), product = only_for(product->inputs[0]);
    }
    if (linear != nullptr && !behind.empty()) last = behind.front();
    for (; linear != nullptr && !behind.empty(); behind.pop_back()) {
      const Module::Operand operands[] = {{}, {1, program_.value(behind.back()->inputs[1]).constant}};
      const Module::Absorbed absorbed = linear->absorb(*behind.back()->module, operands);
      linear = absorbed.parameters ? std::dynamic_pointer_cast<const Linear>(absorbed.module) : nullptr;
    }
    if (linear == nullptr || !linear->weight().defined() || product->inputs.size() != 1) return;
    const auto [in, out, bias] = linear->options();
    if (!takes_in && in > few_channels) return;
    auto conv = std::make_shared<Conv2d>(Conv2dOptions{.in = in, .out = out, .bias = bias});
    conv->set_weight(linear->weight().view({out, in, 1, 1}));
    if (bias) conv->set_bias(linear->bias());
    EightBitWeights eight = linear->eight_bits();
    if (eight.defined()) eight.weight = eight.weight.view({out, in, 1, 1});
    conv->set_eight_bits(std::move(eight));
    const std::int64_t n = image.shape[0], h = image.shape[2], w = image.shape[3];
    const Shape before = {n, in, h, w};
    // Codes are moved before they are dequantised, since the convolution reads codes.
    const Operation* const by = conv->eight_bits().defined() ? computes(product->inputs[0]) : nullptr;
    const auto step = by == nullptr || by->inputs.size() != 1 ? std::nullopt : quantization_of(*by->module);
    const bool reads = step && step->kind == QuantizationKind::dequantize;
    const auto [move, from] = composed_move(reads ? by->inputs[0] : product->inputs[0],
                                            {.axes = {{n, h * w * in}, {in, 1}, {h, w * in}, {w, in}}});
    // An image that was turned to rows for this layer alone is read as it was.
    const View view = {.shape = before};
    const bool still =
        shape(from) == before && is_still(move, {.inputs = {&view, 1}, .outputs = {&view, 1}, .device = {}});
    int moved = from;
    if (!still && !reads) set_move(*product, move, from, before), moved = product->output;
    if (!still && reads) {
      auto moving = std::make_shared<Fixed<MoveProblem>>(move, before, program_.value(from).format.dtype);
      moved = insert(*product, operation_of(program_.value(from).name, std::move(moving), {from}, before));
      program_.value(moved).format.dtype = program_.value(from).format.dtype;
    }
    if (reads) replace(*product, by->module, {moved}, before), moved = product->output;
    replace(*last, std::move(conv), {moved}, image.shape);
    if (last != &op) read_instead(op.output, last->output);
  }

  /// Makes a move that moves nothing a view, which does not keep others from being fused. Moves of images stay: they
  /// are looked at again when it is settled how an image lies in memory.
  void make_view(Operation& op, const MoveProblem& problem) {
    const View input = {.shape = shape(op.inputs[0])}, output = {.shape = shape(op.output)};
    const bool images = input.shape.rank() == 4 || output.shape.rank() == 4;
    if (images || !is_still(problem, {.inputs = {&input, 1}, .outputs = {&output, 1}, .device = {}})) return;
    replace(op, std::make_shared<Reshape>(output.shape), op.inputs, output.shape);
  }

  /// Puts a view in front of the operations on single rows before it, if those read a view or a move, whose result can
  /// have any shape. The view's readers may then become part of them.
  void lift(Operation& op) {
    std::vector<int> path;  // from the last of these operations to the first
    int first = behind_views(op.output);
    while (is_rowwise(computes(first)) && only_reader(first) != none) {
      path.push_back(producer(first));
      first = computes(first)->inputs[0];
    }
    const Shape to = shape(op.output);
    if (path.empty() || to.rank() < 2 || extent(operation(path.front()).output, -1) != to[-1]) return;
    Operation* const before = only_for(first);
    const auto move = any_move_of(before);
    if (before == nullptr || !can_have(to.rank(), path) || !(move || before->view)) return;
    const Shape rows = with_rows_of(to, shape(first)[-1]);
    if (rows != shape(first)) {  // with the same shape it stays what it is: a Flatten can become part of a Linear, a
                                 // Reshape cannot
      const int source = before->inputs[0];
      move ? set_move(*before, *move, source, rows) : replace(*before, std::make_shared<Reshape>(rows), {source}, rows);
    }
    std::ranges::reverse(path);
    read_instead(op.output, put_behind(first, path, to));
  }
};

}  // namespace

void simplify_moves(Program& program, const CompileOptions& options) { Moves(program, options).simplify(); }

}  // namespace lamina::detail
