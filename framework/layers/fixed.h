#pragma once

#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lamina/kernel/rules/move/plan.h"
#include "lamina/layers/views.h"
#include "lamina/module/layer.h"

namespace lamina::detail {

/// What a norm of that shape becomes with what follows it: another shape, known factors and summands, functions.
Module::Absorbed absorb_into(const NormProblem& norm, const Shape& shape, const Module& next,
                             std::span<const Module::Operand> operands);

/// A module for one problem whose shapes are known: what the ops of docs/inside/ops.md become when a network is
/// compiled.
template <class Problem>
class Fixed final : public Layer<Problem> {
 public:
  Fixed(Problem problem, Shape shape, DType dtype) : problem_(std::move(problem)), shape_(shape), dtype_(dtype) {}

  std::string_view op() const override { return Problem::what; }
  Shape output_shape(std::span<const Shape>) const override { return shape_; }
  DType output_dtype(std::span<const DType>) const override { return dtype_; }
  Problem problem(std::span<const Shape>) const override { return problem_; }
  double flops(std::span<const Shape>) const override {
    if constexpr (requires { problem_.flops(); }) return problem_.flops();
    return 0;
  }
  bool keeps_order(const Preparation& preparation) const override {
    if constexpr (moves) return is_still(problem_, preparation);
    return false;
  }
  /// Moves and reductions take any layouts: to turn what they write costs as a conversion does.
  std::size_t extra_bytes(const Preparation& preparation) const override {
    const View& output = preparation.output();
    bool turns = (moves || reduces) && preparation.input().format.layout != output.format.layout;
    turns &= moves ? !keeps_order(preparation) : !same_order(output.shape, Layout::nchw, Layout::nhwc);
    return turns ? bytes_of(output.shape, output.format) : 0;
  }
  /// What a move writes may be read as any shape.
  using Module::absorb;
  Module::Absorbed absorb(const Module& next, std::span<const Module::Operand> operands) const override {
    if constexpr (std::is_same_v<Problem, NormProblem>) return absorb_into(problem_, shape_, next, operands);
    const auto* view = moves ? dynamic_cast<const Reshape*>(&next) : nullptr;
    if (view == nullptr) return {};
    return {.module = std::make_shared<Fixed>(problem_, view->shape(), dtype_)};
  }

 private:
  static constexpr bool moves = std::is_same_v<Problem, MoveProblem>;
  static constexpr bool reduces = std::is_same_v<Problem, ReduceProblem>;

  Problem problem_;
  Shape shape_;
  DType dtype_;
};

}  // namespace lamina::detail
