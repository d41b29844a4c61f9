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

  /// The operations that read a value, in order; one that reads it twice is there twice. `none` stands for a reader
  /// that is no operation of the Program: the caller, or an operation that waits for `finish`, so is_output() is true
  /// of what that one reads.
  const std::multiset<int>& readers(int value) const { return readers_[index(value)]; }
  bool is_output(int value) const { return readers(value).contains(none); }
  /// The operation that is a value's only reader; `none` if there are more, or if the value is stored in eight bits:
  /// joining its reader with what computes it would leave out the rounding to them.
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
  /// The operation that computes a value, if the value is read once; else null.
  Operation* only_computes(int value) {
    const bool one = readers(value).size() == 1 && producer(value) != none;
    return one ? &operation(producer(value)) : nullptr;
  }
  /// The same; null if the value is stored in eight bits, for the reason that only_reader() has.
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
  /// The move that an operation is, if it has one operand.
  std::optional<MoveProblem> move_of(const Operation* op) const {
    return op == nullptr || op->inputs.size() != 1 ? std::nullopt : solved_by<MoveProblem>(op);
  }
  /// The problem that a convolution solves; nothing if the operation is no convolution, or one in eight bits, or if its
  /// weights are not known yet.
  std::optional<ConvProblem> convolution(const Operation& op) const;
  /// The same of a convolution that has so many operands and multiplies no channels by factors.
  std::optional<ConvProblem> convolution(const Operation& op, std::size_t operands) const;
  /// The operations that read a value, if each is such a convolution of it and reads it once; else an empty list.
  std::vector<int> convolutions_of(int value) const;
  /// The problem of a convolution of an image in eight bits that has no other operand.
  std::optional<ConvProblem> of_codes(const Operation& op) const;

  /// Whether a kernel takes an operation and pays.
  bool has_paying_kernel(const Operation& op) const { return pays_in_some_format(program_, op, options_); }

  /// A value of f32 that no operation computes yet.
  int new_value(std::string name, const Shape& shape, Tensor constant = {});
  /// An operation that computes a new value of that shape. Operation and value get the name.
  Operation operation_of(const std::string& name, std::shared_ptr<const Module> module, std::vector<int> inputs,
                         const Shape& shape);
  /// Whether all readers of a value would do the same if it had another shape of as many elements.
  bool any_shape_is_read(int value) const;
  /// A move of a value's elements and what it reads: if a move computes the value, both moves as one, of what the first
  /// one reads; else the move as it is, and the value.
  std::pair<MoveProblem, int> composed_move(int value, MoveProblem problem) const;
  /// An operation that does what composed_move() says.
  Operation move_from(const std::string& name, int value, MoveProblem problem, const Shape& shape);
  /// An operation that puts channels of zeros behind those of an image, up to that number of channels.
  Operation with_zeros(int value, std::int64_t channels);
  /// Puts `by` in the place of `op`. Operations that nobody reads any more are dropped.
  void replace(Operation& op, Operation by);
  /// Gives an operation another module, other inputs, and its output the shape `to`.
  void replace(Operation& op, std::shared_ptr<const Module> module, std::vector<int> inputs, const Shape& to);
  /// Takes an operation out, and with it those whose results nobody else reads.
  void drop(Operation& op);
  /// Puts `longer`, which also does what `parts` do, in the place of `op`, and drops the parts. Does nothing and
  /// returns false if no kernel takes `longer` and pays.
  bool join(Operation& op, Operation longer, const std::vector<Operation*>& parts);
  template <class Problem>
  bool join(Operation& op, std::vector<int> inputs, Problem problem, const std::vector<Operation*>& parts,
            int second_output = none) {
    Operation longer = op;
    longer.module = std::make_shared<Fixed<Problem>>(std::move(problem), shape(op.output), DType::f32);
    longer.inputs = std::move(inputs), longer.second_output = second_output;
    return join(op, std::move(longer), parts);
  }
  /// Makes all readers of `from` read `to`, which must be computed before them.
  void read_instead(int from, int to);
  /// Keeps `op` until `finish` puts it in front of `before`. Returns the value that `op` computes.
  int insert(const Operation& before, Operation op);
  /// Puts the operations of `insert` into the Program, and takes out those without a module.
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

/// Adds the names of `part` to those that `op` was fused of.
void take_names(Program::Operation& op, const Program::Operation& part);

}  // namespace lamina::detail
