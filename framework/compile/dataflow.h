#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lamina/compile/program.h"
#include "lamina/layers/conv2d.h"
#include "lamina/module/layer.h"

namespace lamina::detail {

/// Who computes and who reads each value of a Program, for passes that look past single operations. One that is not
/// needed any more has no module until `finish`.
class Dataflow {
 public:
  using Operation = Program::Operation;
  static constexpr int none = -1;

  explicit Dataflow(Program& program)
      : program_(program), readers_(program.values.size()), producer_(program.values.size(), none) {
    for (std::size_t i = 0; i < program_.operations.size(); ++i) {
      const Operation& op = program_.operations[i];
      producer_[index(op.output)] = static_cast<int>(i);
      if (op.second_output != none) producer_[index(op.second_output)] = static_cast<int>(i);
      for (const int input : op.inputs) readers_[index(input)].push_back(static_cast<int>(i));
    }
    for (const int output : program_.outputs) readers_[index(output)].push_back(none);
  }

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  const Shape& shape(int value) const { return program_.value(value).shape; }

  /// The operations that read a value, `none` for the caller.
  const std::vector<int>& readers(int value) const { return readers_[index(value)]; }
  /// The operation that computes a value; `none` of inputs and constants.
  int producer(int value) const { return producer_[index(value)]; }

  /// The operation that computes a value which only one other reads.
  Operation* only_for(int value) {
    if (readers(value).size() != 1 || producer(value) == none) return nullptr;
    return &program_.operations[index(producer(value))];
  }

  /// What an operation does, if it is of that kind.
  template <class Problem>
  std::optional<Problem> problem_of(const Operation& op) const {
    const auto* layer = dynamic_cast<const Layer<Problem>*>(op.module.get());
    if (layer == nullptr) return std::nullopt;
    std::vector<Shape> inputs;
    for (const int input : op.inputs) inputs.push_back(shape(input));
    return layer->problem(inputs);
  }

  /// What a convolution solves; nothing if the operation is none, or of scaled channels, or not known yet.
  std::optional<ConvProblem> convolution(const Operation& op) const {
    const auto* conv = dynamic_cast<const Conv2d*>(op.module.get());
    if (conv == nullptr || op.view || !conv->weight().defined()) return std::nullopt;
    if (conv->options().bias && !conv->bias().defined()) return std::nullopt;
    auto problem = problem_of<ConvProblem>(op);
    if (problem->scaled) problem.reset();
    return problem;
  }

  /// A value of f32 that no operation computes yet.
  int new_value(std::string name, const Shape& shape, Tensor constant = {}) {
    program_.values.push_back({std::move(name), shape, {}, std::move(constant)});
    readers_.emplace_back();
    producer_.push_back(none);
    return static_cast<int>(program_.values.size()) - 1;
  }

  /// `op` does what `part` did, which is not needed any more.
  static void take_in(Operation& op, Operation& part) {
    for (const std::string& names : {part.name, part.fused}) {
      if (!names.empty()) op.fused += (op.fused.empty() ? "" : ", ") + names;
    }
    part.module = nullptr;
  }

  /// `op` is to run before `before`.
  void insert(const Operation& before, Operation op) {
    inserted_.emplace_back(&before - program_.operations.data(), std::move(op));
  }

  /// Puts in what was inserted, and takes out what is not needed any more.
  void finish() {
    std::ranges::stable_sort(inserted_, {}, [](const auto& some) { return some.first; });
    std::vector<Operation> all;
    auto next = inserted_.begin();
    for (std::size_t i = 0; i < program_.operations.size(); ++i) {
      for (; next != inserted_.end() && index(static_cast<int>(next->first)) == i; ++next) {
        all.push_back(std::move(next->second));
      }
      if (program_.operations[i].module != nullptr) all.push_back(std::move(program_.operations[i]));
    }
    inserted_.clear();
    program_.operations = std::move(all);
  }

 private:
  Program& program_;
  std::vector<std::vector<int>> readers_;  // by value
  std::vector<int> producer_;              // by value
  std::vector<std::pair<std::ptrdiff_t, Operation>> inserted_;
};

}  // namespace lamina::detail
