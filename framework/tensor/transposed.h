#pragma once

#include <cstdint>

#include "lamina/tensor/tensor.h"

namespace lamina::detail {

/// A matrix on the CPU with its rows as columns. T: an element, or whatever has the size of one.
template <class T>
Tensor transposed(const Tensor& matrix) {
  const std::int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  Tensor result({columns, rows}, matrix.dtype());
  const auto* from = static_cast<const T*>(matrix.raw());
  auto* const to = static_cast<T*>(result.raw());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) to[column * rows + row] = *from++;
  }
  return result;
}

}  // namespace lamina::detail
