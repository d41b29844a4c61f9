#include "lamina/compile/dataflow.h"

#include <algorithm>

#include "lamina/kernel/rules/move/compose.h"
#include "lamina/layers/views.h"

namespace lamina::detail {

Dataflow::Dataflow(Program& program, const CompileOptions& options)
    : program_(program), options_(options), readers_(program.values.size()), producer_(program.values.size(), none) {
  for (const Operation& op : program_.operations) {
    for (const int result : {op.output, op.second_output}) {
      if (result != none) producer_[index(result)] = number(op);
    }
    enter(op.inputs, number(op));
  }
  enter(program_.outputs, none);
}

std::vector<Shape> Dataflow::shapes(const std::vector<int>& values) const {
  std::vector<Shape> result;
  for (const int value : values) result.push_back(shape(value));
  return result;
}

std::optional<ConvProblem> Dataflow::convolution(const Operation& op) const {
  const auto* conv = dynamic_cast<const Conv2d*>(op.module.get());
  if (conv == nullptr || op.view || !conv->weight().defined() || conv->eight_bits().defined()) return std::nullopt;
  if (conv->options().bias && !conv->bias().defined()) return std::nullopt;
  return problem_of<ConvProblem>(op);
}

std::optional<ConvProblem> Dataflow::convolution(const Operation& op, std::size_t operands) const {
  auto problem = op.inputs.size() == operands ? convolution(op) : std::nullopt;
  return problem && !problem->scaled() ? problem : std::nullopt;
}

std::vector<int> Dataflow::convolutions_of(int value) const {
  const std::vector<int> all(readers(value).begin(), readers(value).end());
  const auto is_one = [&](int reader) {
    if (reader == none) return false;
    const std::vector<int>& inputs = operation(reader).inputs;
    return convolution(operation(reader), inputs.size()) && inputs[0] == value &&
           std::ranges::count(inputs, value) == 1;
  };
  return std::ranges::all_of(all, is_one) ? all : std::vector<int>();
}

std::optional<ConvProblem> Dataflow::of_codes(const Operation& op) const {
  auto problem = op.module == nullptr || op.inputs.size() != 1 ? std::nullopt : problem_of<ConvProblem>(op);
  return problem && problem->eight.defined() ? problem : std::nullopt;
}

int Dataflow::new_value(std::string name, const Shape& shape, Tensor constant) {
  program_.values.push_back({std::move(name), shape, {}, std::move(constant)});
  readers_.emplace_back();
  producer_.push_back(none);
  return static_cast<int>(program_.values.size()) - 1;
}

Program::Operation Dataflow::operation_of(const std::string& name, std::shared_ptr<const Module> module,
                                          std::vector<int> inputs, const Shape& shape) {
  Operation op;
  op.name = name, op.module = std::move(module), op.inputs = std::move(inputs);
  op.output = new_value(name, shape);
  return op;
}

bool Dataflow::any_shape_is_read(int value) const {
  return std::ranges::all_of(readers(value), [&](int reader) {
    if (reader == none) return false;
    const Operation& op = operation(reader);
    return dynamic_cast<const Reshape*>(op.module.get()) != nullptr || problem_of<MoveProblem>(op).has_value();
  });
}

std::pair<MoveProblem, int> Dataflow::composed_move(int value, MoveProblem problem) const {
  const Operation* const before = computes(value);
  const auto first = move_of(before);
  if (auto both = first ? composed(problem, *first) : std::nullopt) return {*std::move(both), before->inputs[0]};
  return {std::move(problem), value};
}

Program::Operation Dataflow::move_from(const std::string& name, int value, MoveProblem problem, const Shape& shape) {
  const auto [move, source] = composed_move(value, std::move(problem));
  return operation_of(name, std::make_shared<Fixed<MoveProblem>>(move, shape, DType::f32), {source}, shape);
}

Program::Operation Dataflow::with_zeros(int value, std::int64_t channels) {
  Shape wide = shape(value);
  const std::int64_t row = wide[3], page = wide[2] * row, own = wide[1];
  int source = value;
  MoveProblem move = {{{wide[0], own * page}, {own, page}, {wide[2], row}, {wide[3], 1}}};
  if (const auto first = move_of(computes(value)); first && first->axes.size() == 4 && first->axes[1].extent == own &&
                                                   first->axes[0].extent == wide[0] && first->fill == 0)
    move = *first, source = computes(value)->inputs[0];
  MoveProblem::Axis& axis = move.axes[1];
  if (axis.offsets.empty()) {
    for (std::int64_t c = 0; c < own; ++c) axis.offsets.push_back(c * axis.stride);
  }
  axis.offsets.resize(static_cast<std::size_t>(channels), -1), axis.extent = channels;
  wide.set(1, channels);
  return move_from(program_.value(value).name, source, std::move(move), wide);
}

void Dataflow::enter(const std::vector<int>& values, int reader) {
  for (const int value : values) readers_[index(value)].insert(reader);
}

/// `reader` reads these values no more. An operation whose results nobody reads any more is taken out, and so is what
/// only that one read.
void Dataflow::leave(std::vector<int> values, int reader) {
  std::vector<std::pair<int, std::vector<int>>> left;
  left.emplace_back(reader, std::move(values));
  while (!left.empty()) {
    const auto [by, read] = std::move(left.back());
    left.pop_back();
    for (const int value : read) {
      std::multiset<int>& of = readers_[index(value)];
      of.erase(of.find(by));
      const int from = producer(value);
      if (of.empty() && from != none && !is_read(operation(from))) left.emplace_back(from, take_out(operation(from)));
    }
  }
}

bool Dataflow::is_read(const Operation& op) const {
  return !readers(op.output).empty() || (op.second_output != none && !readers(op.second_output).empty());
}

/// Returns what the operation read.
std::vector<int> Dataflow::take_out(Operation& op) {
  for (const int result : {op.output, op.second_output}) {
    if (result != none && producer(result) == number(op)) producer_[index(result)] = none;
  }
  return std::exchange(op, {}).inputs;
}

void Dataflow::drop(Operation& op) {
  if (op.module != nullptr) leave(take_out(op), number(op));
}

void Dataflow::replace(Operation& op, Operation by) {
  enter(by.inputs, number(op));
  std::vector<int> before = take_out(op);
  op = std::move(by);
  for (const int result : {op.output, op.second_output}) {
    if (result != none) producer_[index(result)] = number(op);
  }
  leave(std::move(before), number(op));
}

void Dataflow::replace(Operation& op, std::shared_ptr<const Module> module, std::vector<int> inputs, const Shape& to) {
  Operation other = op;
  other.module = std::move(module), other.inputs = std::move(inputs);
  other.view = other.module->is_view(shapes(other.inputs));
  program_.value(op.output).shape = to;
  replace(op, std::move(other));
}

bool Dataflow::join(Operation& op, Operation longer, const std::vector<Operation*>& parts) {
  if (!has_paying_kernel(longer)) return false;
  for (const Operation* part : parts) take_names(longer, *part);
  replace(op, std::move(longer));
  for (Operation* part : parts) drop(*part);
  return true;
}

void Dataflow::read_instead(int from, int to) {
  const std::vector<int> all(readers(from).begin(), readers(from).end());
  for (const int reader : all) {
    std::vector<int>& inputs = reader == none ? program_.outputs : operation(reader).inputs;
    std::ranges::replace(inputs, from, to);
    enter({to}, reader);
  }
  for (const int reader : all) leave({from}, reader);
}

int Dataflow::insert(const Operation& before, Operation op) {
  enter(op.inputs, none);
  return inserted_.emplace_back(number(before), std::move(op)).second.output;
}

void Dataflow::finish() {
  std::ranges::stable_sort(inserted_, {}, [](const auto& some) { return some.first; });
  std::vector<Operation> all;
  auto next = inserted_.begin();
  for (Operation& op : program_.operations) {
    for (; next != inserted_.end() && next->first == number(op); ++next) all.push_back(std::move(next->second));
    if (op.module != nullptr) all.push_back(std::move(op));
  }
  program_.operations = std::move(all);
}

void take_names(Program::Operation& op, const Program::Operation& part) {
  for (const std::string& names : {part.name, part.fused}) {
    if (!names.empty()) op.fused.append(op.fused.empty() ? "" : ", ").append(names);
  }
}

}  // namespace lamina::detail
