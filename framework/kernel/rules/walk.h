#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lamina/kernel/preparation.h"

/// Arrays that are walked together, whatever the order in which each lies in memory.
namespace lamina::detail {

/// Elements from one index to the next, by dimension of a View's logical shape.
using Strides = std::array<std::int64_t, Shape::max_rank>;
Strides strides_of(const View& view);

/// The dimensions of a View's logical shape, the outermost in memory first.
std::vector<int> memory_order(const View& view);

/// Of an array in whose memory rows of elements have gaps between them: elements of a row, and from row to row. Equal
/// where there are none. Nothing of an array that lies otherwise.
struct Gaps {
  std::int64_t row, pitch;
};
std::optional<Gaps> gaps_of(const View& view);

/// The same where the view broadcasts to `shape`: aligned at the last dimension, 0 where it has one for all.
Strides broadcast_strides(const View& view, const Shape& shape);

/// Whether `shape` broadcasts to `output`, as NumPy's shapes do.
bool broadcasts(const Shape& shape, const Shape& output);

/// A loop nest over one extent for each axis, the outermost first.
struct WalkAxis {
  std::int64_t extent = 1;
  std::vector<std::int64_t> strides = {};  ///< by array
};

/// The same elements in the same order, by as few axes as do: those of one element go, neighbours that every array goes
/// through in one stride become one. At least one axis remains.
std::vector<WalkAxis> merged(std::vector<WalkAxis> axes);

/// Every element of `output`, in the order of its memory, and of the inputs that broadcast to it: strides[0] is the
/// output's, the inputs' follow.
std::vector<WalkAxis> broadcast_walk(const View& output, std::span<const View> inputs);

/// The product of the axes' extents.
std::int64_t count_of(std::span<const WalkAxis> axes);

}  // namespace lamina::detail
