#pragma once

#include <cstdint>
#include <span>

#include "lamina/cuda/divider.h"
#include "lamina/kernel/rules/walk.h"

/// Loop nests on the device: from the number of an element to where it lies.
namespace lamina::cuda {

/// Extents, from the outermost.
template <int most>
struct Axes {
  std::int64_t extents[most];
  Divider dividers[most];
  int count = 0;
  bool wide = false;  ///< elements are too many for Divider

  void add(std::int64_t extent) {
    extents[count] = extent;
    dividers[count++] = Divider(wide || extent == 0 ? 1 : extent);  // of nothing, nothing is asked
  }

  /// Calls f(axis, index along it) for each axis, from the innermost, of element `index`.
  template <class F>
  __device__ void visit(std::int64_t index, F f) const {
    if (wide) {
#pragma unroll 1
      for (int axis = count - 1; axis > 0; --axis) {
        const std::int64_t quotient = index / extents[axis];
        f(axis, index - quotient * extents[axis]);
        index = quotient;
      }
      f(0, index);
    } else {
      auto rest = static_cast<std::uint32_t>(index);
#pragma unroll 1
      for (int axis = count - 1; axis > 0; --axis) {
        const std::uint32_t quotient = dividers[axis].quotient(rest);
        f(axis, static_cast<std::int64_t>(rest - quotient * static_cast<std::uint32_t>(extents[axis])));
        rest = quotient;
      }
      f(0, static_cast<std::int64_t>(rest));
    }
  }

  __device__ std::int64_t offset(const std::int64_t* strides, std::int64_t index) const {
    std::int64_t offset = 0;
    visit(index, [&](int axis, std::int64_t at) { offset += at * strides[axis]; });
    return offset;
  }
};

/// Elements that Divider can count.
inline constexpr std::int64_t narrow_count = std::int64_t{1} << 31;

/// The axes of one array, as detail::merged leaves them, with its strides.
struct StridedAxes {
  Axes<Shape::max_rank> axes;
  std::int64_t strides[Shape::max_rank];

  StridedAxes() = default;
  StridedAxes(std::span<const detail::WalkAxis> walk, std::size_t array) {
    axes.wide = detail::count_of(walk) >= narrow_count;
    for (const detail::WalkAxis& axis : walk) {
      strides[axes.count] = axis.strides[array];
      axes.add(axis.extent);
    }
  }

  __device__ std::int64_t offset(std::int64_t index) const { return axes.offset(strides, index); }
};

}  // namespace lamina::cuda
