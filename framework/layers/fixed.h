#pragma once

#include <string_view>
#include <utility>

#include "lamina/layers/layer.h"

namespace lamina::detail {

/// A module for one problem whose shapes are known: what the ops of docs/ops.md become when a network is compiled.
template <class Problem>
class Fixed final : public Layer<Problem> {
 public:
  Fixed(Problem problem, Shape shape, DType dtype) : problem_(std::move(problem)), shape_(shape), dtype_(dtype) {}

  std::string_view op() const override { return Problem::what; }
  Shape output_shape(std::span<const Shape>) const override { return shape_; }
  DType output_dtype(std::span<const DType>) const override { return dtype_; }
  Problem problem(std::span<const Shape>) const override { return problem_; }

 private:
  Problem problem_;
  Shape shape_;
  DType dtype_;
};

}  // namespace lamina::detail
