#include "lamina/ops/expansion.h"

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/kernel/rules/move/compose.h"
#include "lamina/layers/concat.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/views.h"
#include "lamina/ops/element_type.h"
#include "lamina/ops/parts.h"
#include "lamina/tensor/visit.h"

namespace lamina::detail {

Expansion::Expansion(Network& network, const Op& op, std::string name, std::vector<int> inputs)
    : network_(network),
      op_(op.op()),
      name_(std::move(name)),
      inputs_(std::move(inputs)),
      attributes_(op.attributes()),
      reader_(attributes_) {}

int Expansion::input(int i) const {
  if (i < count() && inputs_[static_cast<std::size_t>(i)] < -1) fail(op_, ": operand ", i + 1, " is a sequence");
  if (!has(i)) fail(op_, ": expected operand ", i + 1, ", got ", count());
  return inputs_[static_cast<std::size_t>(i)];
}

const std::vector<int>& Expansion::sequence(int i) const {
  const int id = i < count() ? inputs_[static_cast<std::size_t>(i)] : -1;
  if (id > -2) fail(op_, ": expected a sequence as operand ", i + 1);
  return network_.sequence(id);
}

std::vector<int> Expansion::all_inputs() const {
  std::vector<int> result;
  for (int i = 0; i < count(); ++i) result.push_back(input(i));
  return result;
}

Tensor Expansion::constant(int i, std::string_view or_else) const {
  const Network::Node& node = network_[input(i)];
  if (node.constant.defined()) return node.constant;
  std::vector<std::string> names = network_.inputs_of(input(i));
  std::string listed;
  for (const std::string& name : names) listed += (listed.empty() ? "\"" : ", \"") + name + '"';
  throw UnboundInputs(concat(op_, ": operand ", i + 1, " must be known when the network is compiled, and depends on ",
                             listed.empty() ? "what only a run computes" : "input " + listed,
                             listed.empty() ? "" : "; give its value as CompileOptions::constants", or_else),
                      std::move(names));
}

std::vector<std::int64_t> to_integers(const Tensor& tensor) {
  const Tensor wide = tensor.to(DType::i64);
  const std::span<const std::int64_t> values = wide.values<std::int64_t>();
  return {values.begin(), values.end()};
}

std::vector<double> to_numbers(const Tensor& tensor) {
  const Tensor wide = tensor.to(DType::f64);
  const std::span<const double> values = wide.values<double>();
  return {values.begin(), values.end()};
}

std::vector<std::int64_t> Expansion::integers(int i) const { return to_integers(constant(i)); }
std::vector<double> Expansion::numbers(int i) const { return to_numbers(constant(i)); }

double Expansion::number(int i) const {
  const std::vector<double> values = numbers(i);
  if (values.size() != 1) fail(op_, ": expected one number as operand ", i + 1, ", got ", shape(input(i)));
  return values[0];
}

int Expansion::axis_of(std::int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) fail(op_, ": there is no axis ", axis, " among ", rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::string Expansion::part_name(std::string_view what) { return concat(name_, " (", what, ' ', ++parts_, ')'); }

int Expansion::add(std::shared_ptr<const Module> module, std::vector<int> inputs) {
  std::string name = part_name(module->op());
  return network_.add(std::move(name), std::move(module), std::move(inputs));
}

int Expansion::constant_node(Tensor value) {
  return network_.add_made_constant(part_name("constant"), std::move(value));
}

int Expansion::scalar(double value, DType dtype) {
  return constant_node(Tensor::from(std::vector<double>{value}, {}).to(dtype));
}

int Expansion::reshape(int node, Shape shape) {
  return shape == this->shape(node) ? node : add(Reshape(shape), {node});
}

DType onnx_dtype(std::string_view op, int number) {
  const ElementType* type = find_element_type(number);
  if (type != nullptr && type->dtype) return *type->dtype;
  fail(op, ": Lamina has no element type ", element_type_name(number));
}

DType compute_type(DType dtype) {
  if (is_float(dtype)) return is_activation(dtype) ? DType::f32 : DType::f64;
  return dtype == DType::u64 ? DType::u64 : DType::i64;
}

int Expansion::cast(int node, DType to) {
  const DType from = dtype(node);
  const auto* made = dynamic_cast<const Elementwise*>(network_[node].module.get());
  if (to == DType::boolean && made != nullptr && made->chain() == PointwiseChain{{Pointwise::identity}} &&
      dtype(network_[node].inputs[0]) == to)
    return network_[node].inputs[0];  // truths, as numbers, are the same truths: what these find is as many
  return from == to ? node : add(Elementwise({{Pointwise::identity}}, compute_type(from), to), {node});
}

int Expansion::move(int node, MoveProblem problem, Shape shape) {
  for (const MoveProblem::Axis& axis : problem.axes) network_.spend(axis.offsets.size() * sizeof(axis.offsets[0]));
  return solve(std::move(problem), shape, dtype(node), {node});
}

int Expansion::permute(int node, std::span<const int> order) {
  const Shape from = shape(node);
  const std::vector<std::int64_t> strides = row_major_strides(from);
  MoveProblem problem;
  std::vector<std::int64_t> extents;
  bool same = true;  // but for extents of 1, which lie anywhere
  int previous = -1;
  for (const int axis : order) {
    problem.axes.push_back({.extent = from[axis], .stride = strides[static_cast<std::size_t>(axis)]});
    extents.push_back(from[axis]);
    if (from[axis] == 1) continue;
    same &= axis > previous;
    previous = axis;
  }
  const Shape to{std::span<const std::int64_t>(extents)};
  return same ? reshape(node, to) : move(node, std::move(problem), to);
}

int Expansion::slice(int node, int axis, std::int64_t begin, std::int64_t end) {
  const std::int64_t extent = shape(node)[axis];
  if (begin == 0 && end == extent) return node;
  return pick(*this, node, {places_of(*this, axis, begin, end - begin, extent)});
}

int Expansion::join(std::vector<int> nodes, int axis) {
  if (nodes.size() == 1) return nodes[0];
  Concat joined(axis);
  // Parts of one value, in another order, are one move of it: exporters write a roll so.
  std::vector<MoveProblem> parts;
  std::vector<Shape> shapes;
  int source = -1;
  for (const int node : nodes) {
    auto [from, part] = origin(node);
    if (!part || (source >= 0 && from != source)) break;
    source = from;
    parts.push_back(std::move(*part));
    shapes.push_back(shape(node));
  }
  if (parts.size() == nodes.size()) {
    if (auto whole = beside(parts, shapes, static_cast<std::size_t>(axis))) {
      return move(source, std::move(*whole), joined.output_shape(shapes));
    }
  }
  return add(std::move(joined), std::move(nodes));
}

std::pair<int, std::optional<MoveProblem>> Expansion::origin(int node) const {
  std::optional<MoveProblem> all;
  for (;;) {
    const auto* move = dynamic_cast<const Fixed<MoveProblem>*>(network_[node].module.get());
    if (move == nullptr || network_[node].range.most.defined()) return {node, all};  // a count is one by itself
    auto both = all ? composed(*all, move->problem({})) : move->problem({});
    if (!both) return {node, all};
    all = std::move(both);
    node = network_[node].inputs[0];
  }
}

int Expansion::reduce(Reduction kind, int node, std::vector<int> axes, bool keep, bool last) {
  unsigned dims = 0;
  for (const int axis : axes) dims |= 1u << axis;
  std::vector<std::int64_t> extents;
  for (int d = 0; d < rank(node); ++d) {
    if ((dims >> d & 1u) == 0) {
      extents.push_back(shape(node)[d]);
    } else if (keep) {
      extents.push_back(1);
    }
  }
  const bool place = kind == Reduction::arg_max || kind == Reduction::arg_min;
  return solve(ReduceProblem{kind, dims, last}, Shape(std::span<const std::int64_t>(extents)),
               place ? DType::i64 : dtype(node), {node});
}

/// What a node repeats along dimensions of one element, or the node itself.
int Expansion::before_expansion(int node) const {
  const auto* move = dynamic_cast<const Fixed<MoveProblem>*>(network_[node].module.get());
  if (move == nullptr || !network_[node].counts.empty()) return node;
  const int source = network_[node].inputs[0];
  const Shape &from = shape(source), &to = shape(node);
  const std::vector<MoveProblem::Axis> axes = move->problem({}).axes;
  if (from.rank() > to.rank() || axes.size() != to.rank()) return node;
  const std::vector<std::int64_t> strides = row_major_strides(from);
  for (std::size_t d = 0; d < axes.size(); ++d) {
    const std::size_t missing = to.rank() - from.rank();
    const std::int64_t extent = d < missing ? 1 : from.extents()[d - missing];
    const std::int64_t stride = extent == 1 ? 0 : strides[d - missing];
    const MoveProblem::Axis& axis = axes[d];
    const bool repeated = extent == 1 || extent == axis.extent;
    if (!repeated || !axis.offsets.empty() || axis.extent != to.extents()[d] || axis.stride != stride) return node;
  }
  return source;
}

int Expansion::pointwise(Pointwise function, std::vector<int> inputs) {
  const int operands = describe(function).operands;
  if (static_cast<int>(inputs.size()) != operands) fail(op_, ": expected ", operands, " operands, got ", inputs.size());
  // To repeat what is repeated anyway is no work: with the shapes before, if the result has the same.
  std::vector<int> before;
  for (const int node : inputs) before.push_back(before_expansion(node));
  const auto result_shape = [&](const std::vector<int>& nodes) {
    std::vector<Shape> shapes;
    for (const int node : nodes) shapes.push_back(shape(node));
    return broadcast(op_, shapes);
  };
  if (before != inputs && result_shape(before) == result_shape(inputs)) inputs = before;
  // What is known becomes a number of the instruction; the larger operand may be written over.
  if (is_commutative(function) && !known(inputs[1]).defined() &&
      (known(inputs[0]).defined() || shape(inputs[0]).numel() < shape(inputs[1]).numel())) {
    std::swap(inputs[0], inputs[1]);
  }
  const DType type = dtype(inputs[function == Pointwise::where ? 1 : 0]);
  const DType result = describe(function).truth ? DType::boolean : type;
  PointwiseStep step = {.function = function};
  // A number is read from the instruction, not from memory.
  std::vector<int> kept = {inputs[0]};
  const auto place = [&](std::size_t i, int& operand, double& immediate) {
    if (inputs.size() <= i) return;
    const Tensor& value = known(inputs[i]);
    if (value.defined() && value.numel() == 1 && value.shape().rank() <= shape(inputs[0]).rank() &&
        compute_type(type) == DType::f32) {
      immediate = to_numbers(value)[0];
      return;
    }
    operand = inputs[i] == inputs[0] ? 0 : static_cast<int>(kept.size());
    if (operand != 0) kept.push_back(inputs[i]);
  };
  place(1, step.operand, step.a);
  place(2, step.second, step.b);
  return add(Elementwise({step}, compute_type(type), result), std::move(kept));
}

int Expansion::pointwise(Pointwise function, int node, double a, double b) {
  const DType type = dtype(node);
  return add(Elementwise({{.function = function, .a = a, .b = b}}, compute_type(type),
                         describe(function).truth ? DType::boolean : type),
             {node});
}

}  // namespace lamina::detail
