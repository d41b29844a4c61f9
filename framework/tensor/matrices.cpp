#include "lamina/tensor/matrices.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "lamina/base/in_parallel.h"
#include "lamina/tensor/visit.h"

namespace lamina::detail {
namespace {

constexpr std::size_t piece = std::size_t{1} << 18;  // elements that are worth a thread

template <class T>
void transpose(const void* matrix, void* result, std::size_t rows, std::size_t columns) {
  constexpr std::size_t together = 16;  // rows whose lines are in the cache at once
  const auto* const from = static_cast<const T*>(matrix);
  auto* const to = static_cast<T*>(result);
  in_parallel(columns, std::max<std::size_t>(piece / std::max<std::size_t>(rows, 1), 1),
              [&](std::size_t begin, std::size_t end) {
                for (std::size_t first = 0; first < rows; first += together) {
                  const std::size_t last = std::min(first + together, rows);
                  for (std::size_t column = begin; column < end; ++column) {
                    for (std::size_t row = first; row < last; ++row)
                      to[column * rows + row] = from[row * columns + column];
                  }
                }
              });
}

/// Whether all are finite. Without a branch among the products, so that the compiler can take several at once.
bool multiply(const float* from, float* to, std::size_t count, double factor) {
  constexpr std::uint32_t exponent = 0x7f800000u;
  std::uint32_t other = 0;
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = static_cast<float>(static_cast<double>(from[i]) * factor);
    other |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(to[i]) & exponent) == exponent);
  }
  return other == 0;
}

}  // namespace

Tensor transposed(const Tensor& matrix) {
  const auto rows = static_cast<std::size_t>(matrix.shape()[0]), columns = static_cast<std::size_t>(matrix.shape()[1]);
  Tensor result({matrix.shape()[1], matrix.shape()[0]}, matrix.dtype());
  switch (size_of(matrix.dtype())) {
    case 1: transpose<std::uint8_t>(matrix.raw(), result.raw(), rows, columns); break;
    case 2: transpose<std::uint16_t>(matrix.raw(), result.raw(), rows, columns); break;
    case 4: transpose<std::uint32_t>(matrix.raw(), result.raw(), rows, columns); break;
    default: transpose<std::uint64_t>(matrix.raw(), result.raw(), rows, columns);
  }
  return result;
}

Tensor derived_finite(const Packing& packing, std::initializer_list<Tensor> sources, Shape shape,
                      const std::function<bool(Tensor& to)>& pack) {
  const Tensor result = derived(packing, sources, shape, DType::f32, [&](Tensor& to) {
    // Whoever finds the block, and does not make it, is told so too.
    if (!pack(to)) to.values<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  });
  return std::isfinite(result.values<float>()[0]) ? result : Tensor();
}

Tensor scaled_rows(const Tensor& weight, std::span<const double> scale) {
  const std::size_t length = static_cast<std::size_t>(weight.numel()) / std::max<std::size_t>(scale.size(), 1);
  if (length == 0) return weight.clone();
  return derived_finite(Packing("rows times").with(scale), {weight}, weight.shape(), [&](Tensor& result) {
    const float* const from = weight.values<float>().data();
    float* const to = result.values<float>().data();
    std::atomic<bool> finite = true;
    in_parallel(scale.size(), std::max<std::size_t>(piece / length, 1), [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        if (!multiply(from + row * length, to + row * length, length, scale[row])) finite = false;
      }
    });
    return finite.load();
  });
}

}  // namespace lamina::detail
