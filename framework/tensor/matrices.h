#pragma once

#include <functional>
#include <initializer_list>
#include <span>

#include "lamina/tensor/constants.h"

/// What is done to whole matrices of weights while a network is read or compiled, on the CPU and by several threads.
namespace lamina::detail {

/// A matrix with its rows as columns.
Tensor transposed(const Tensor& matrix);

/// derived() of f32; undefined where `pack` says that it wrote a number that is not finite.
Tensor derived_finite(const Packing& packing, std::initializer_list<Tensor> sources, Shape shape,
                      const std::function<bool(Tensor& to)>& pack);

/// A weight of f32 whose every row [rows, ...] is multiplied by its number, in double precision; undefined where one is
/// no finite number.
Tensor scaled_rows(const Tensor& weight, std::span<const double> scale);

}  // namespace lamina::detail
