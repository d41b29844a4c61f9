#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lamina/compile/program.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/fixed.h"
#include "lamina/module/layer.h"

namespace lamina::detail {

/// Extent of a dimension, as Shape's []; -1 where there is none: values that a pass looks at have any rank.
inline std::int64_t extent_of(const Shape& shape, int dim) {
  const auto rank = static_cast<int>(shape.rank());
  return dim < rank && dim >= -rank ? shape[dim] : -1;
}

/// Who computes and who reads each value of a Program, kept right while a pass changes it: what all passes that look
/// past single operations work on. An operation that is not needed any more has no module until `finish`.
class Dataflow {
 public:
  using Operation = Program::Operation;

  Dataflow(Program& program, const CompileOptions& options);

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  Operation& operation(int i) { return program_.operations[index(i)]; }
  const Operation& operation(int i) const { return program_.operations[index(i)]; }
  const Shape& shape(int value) const { return program_.value(value).shape; }
  std::int64_t extent(int value, int dim) const { return extent_of(shape(value), dim); }
  std::vector<Shape> shapes(const std::vector<int>& values) const;

  /// The operations that read a value, in order, `none` for the caller. One that reads it twice is there twice.
  const std::multiset<int>& readers(int value) const { return readers_[index(value)]; }
  bool is_output(int value) const { return readers(value).contains(none); }
  /// The operation that reads a value, which nobody else does; `none` if there is none such, or if the value is stored
  /// in eight bits: to that it is rounded, whoever computes and reads it.
  int only_reader(int value) const {
    return readers(value).size() == 1 && !is_coded(value) ? *readers(value).begin() : none;
  }
  /// A value as a whole, in its format.
  View view(int value) const {
    const Program::Value& v = program_.value(value);
    return {.shape = v.shape, .format = v.format, .quantization = v.quantization};
  }
  bool is_coded(int value) const { return program_.value(value).quantization.defined(); }
  /// The step that rounds to the codes that a value has.
  PointwiseStep rounding_to(int value) const { return to_codes(view(value).format.dtype, view(value).quantization); }
  /// The operation that computes a value; `none` of inputs and constants.
  int producer(int value) const { return producer_[index(value)]; }
  const Operation* computes(int value) const { return producer(value) == none ? nullptr : &operation(producer(value)); }
  /// The operation that computes a value which only one other reads.
  Operation* only_computes(int value) {
    const bool one = readers(value).size() == 1 && producer(value) != none;
    return one ? &operation(producer(value)) : nullptr;
  }
  /// The same; none if the value is stored in eight bits.
  Operation* only_for(int value) { return is_coded(value) ? nullptr : only_computes(value); }

  /// The problem that an operation solves, if it is of that kind.
  template <class Problem>
  std::optional<Problem> problem_of(const Operation& op) const {
    const auto* layer = dynamic_cast<const Layer<Problem>*>(op.module.get());
    return layer == nullptr ? std::nullopt : std::optional(layer->problem(shapes(op.inputs)));
  }
  /// The same of an operation that computes: its result is no view of what it reads.
  template <class Problem>
  std::optional<Problem> solved_by(const Operation* op) const {
    return op == nullptr || op->view ? std::nullopt : problem_of<Problem>(*op);
  }
  /// What an operation moves of one operand.
  std::optional<MoveProblem> move_of(const Operation* op) const {
    return op == nullptr || op->inputs.size() != 1 ? std::nullopt : solved_by<MoveProblem>(op);
  }
  /// What a convolution solves; nothing if the operation is none, or in eight bits, or not known yet.
  std::optional<ConvProblem> convolution(const Operation& op) const;
  /// The same of one of so many operands whose channels are not scaled.
  std::optional<ConvProblem> convolution(const Operation& op, std::size_t operands) const;
  /// Those that read a value, if all of them are such convolutions of it, which read it but once; else none.
  std::vector<int> convolutions_of(int value) const;
  /// What one of an image in eight bits solves, and of nothing else.
  std::optional<ConvProblem> of_codes(const Operation& op) const;

  /// Whether a kernel takes an operation and pays.
  bool has_paying_kernel(const Operation& op) const { return pays_in_some_format(program_, op, options_); }

  /// A value of f32 that no operation computes yet.
  int new_value(std::string name, const Shape& shape, Tensor constant = {});
  /// An operation that computes a new value of that shape; both are called so.
  Operation operation_of(const std::string& name, std::shared_ptr<const Module> module, std::vector<int> inputs,
                         const Shape& shape);
  /// Whether those that read a value count its elements only.
  bool any_shape_is_read(int value) const;
  /// A move of a value's elements, as one of what that was moved from, if it was.
  std::pair<MoveProblem, int> composed_move(int value, MoveProblem problem) const;
  /// An operation that does so.
  Operation move_from(const std::string& name, int value, MoveProblem problem, const Shape& shape);
  /// An operation that puts channels of zeros behind those of an image, so that it has so many.
  Operation with_zeros(int value, std::int64_t channels);
  /// Another operation in the place of one. What nobody reads then reads nothing itself.
  void replace(Operation& op, Operation by);
  /// Another module, inputs and shape of what an operation gives.
  void replace(Operation& op, std::shared_ptr<const Module> module, std::vector<int> inputs, const Shape& to);
  /// An operation is not needed any more.
  void drop(Operation& op);
  /// `longer` in the place of `op`, which does what `parts` did as well; nothing, and false, if no kernel takes it and
  /// pays.
  bool join(Operation& op, Operation longer, const std::vector<Operation*>& parts);
  template <class Problem>
  bool join(Operation& op, std::vector<int> inputs, Problem problem, const std::vector<Operation*>& parts,
            int second_output = none) {
    Operation longer = op;
    longer.module = std::make_shared<Fixed<Problem>>(std::move(problem), shape(op.output), DType::f32);
    longer.inputs = std::move(inputs), longer.second_output = second_output;
    return join(op, std::move(longer), parts);
  }
  /// Whoever read `from` reads `to`, which is computed before them.
  void read_instead(int from, int to);
  /// `op` is to run before `before`. What it computes.
  int insert(const Operation& before, Operation op);
  /// Puts in what was inserted, and takes out what nobody needs.
  void finish();

 protected:
  Program& program_;
  const CompileOptions& options_;

 private:
  void enter(const std::vector<int>& values, int reader);
  void leave(std::vector<int> values, int reader);
  bool is_read(const Operation& op) const;
  std::vector<int> take_out(Operation& op);
  int number(const Operation& op) const { return static_cast<int>(&op - program_.operations.data()); }

  std::vector<std::multiset<int>> readers_;  // by value
  std::vector<int> producer_;                // by value
  std::vector<std::pair<int, Operation>> inserted_;
};

/// `op` does what `part` did as well: their names.
void take_names(Program::Operation& op, const Program::Operation& part);

}  // namespace lamina::detail
