#pragma once

#include <span>

#include "lamina/tensor/tensor.h"

/// What is done to whole matrices of weights while a network is read or compiled, on the CPU and by several threads.
namespace lamina::detail {

/// A matrix with its rows as columns.
Tensor transposed(const Tensor& matrix);

/// A weight of f32 whose every row [rows, ...] is multiplied by its number, in double precision; undefined where one is
/// no finite number.
Tensor scaled_rows(const Tensor& weight, std::span<const double> scale);

}  // namespace lamina::detail
