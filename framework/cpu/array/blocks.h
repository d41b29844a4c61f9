#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lamina/kernel/rules/walk.h"
#include "lamina/tensor/dtype.h"

/// A few hundred elements at a time, in the L1 cache, of any dtype on their way to and from the types that are computed
/// in: float, double, int64_t, uint64_t and uint8_t.
namespace lamina::cpu {

/// Elements of T in a block.
template <class T>
inline constexpr std::int64_t block = 4096 / static_cast<std::int64_t>(sizeof(T));

/// Copies `count` elements of `size` bytes (1, 2, 4 or 8), `stride` elements apart, to lie side by side.
void gather(const std::byte* from, std::int64_t stride, std::int64_t count, std::size_t size, std::byte* to);

/// The same from a table of places, in elements; those that are -1 become the bits of `fill`.
void gather(const std::byte* from, const std::int64_t* places, std::int64_t count, std::size_t size, std::uint64_t fill,
            std::byte* to);

/// The same of elements [first, first + count) of a walk over several arrays, of which this is `array`.
void gather(std::span<const detail::WalkAxis> axes, std::size_t array, const std::byte* from, std::int64_t first,
            std::int64_t count, std::size_t size, std::byte* to);

/// to[c * to_pitch + r] = from[r * from_pitch + c] of elements of `size` bytes.
void turn(const std::byte* from, std::int64_t from_pitch, std::int64_t rows, std::int64_t columns, std::byte* to,
          std::int64_t to_pitch, std::size_t size);

/// Conversions are those of PointwiseProblem: floats to nearest even, whole numbers to fewer bits by dropping the upper
/// ones, floats to whole numbers towards zero and saturating, NaN to 0.
template <class T>
void load(DType dtype, const void* from, T* to, std::int64_t count);
template <class T>
void store(DType dtype, const T* from, void* to, std::int64_t count);

/// One number in the same way.
template <class T>
T load_one(double value) {
  T result{};
  load(DType::f64, &value, &result, 1);
  return result;
}

}  // namespace lamina::cpu
