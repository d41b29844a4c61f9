#pragma once

#include <optional>
#include <span>

#include "lamina/kernel/map/map.h"

/// One Map in the place of several.
namespace lamina {

/// What `reader` computes if `writers` have written its input `between`, which is then neither written nor read:
/// each element of it is computed where it was loaded. A writer has one store, to what is input `between` of the
/// reader; there are several where an array is put together of parts. Their other arrays have the same numbers in all
/// of them. Roundings to the array's type, of floats, are left out.
///
/// Nothing where a load of the reader has padding, or takes elements in another order than an affine one of the
/// writers' axes, or one of a table along each of them; where both reduce something along different axes; or where
/// numbers would be of other types.
std::optional<MapProblem> composed(std::span<const MapProblem> writers, const MapProblem& reader, int between);

/// The same Map without a reduction: functions of the elements that it was of, in their order, if they are `most` at
/// most, and if what is stored does not differ along reduced axes. Otherwise the Map as it is.
MapProblem unrolled(const MapProblem& problem, std::int64_t most);

/// Replaces an axis by two, of which the second has `inner` elements.
void split_axis(MapProblem& problem, std::size_t axis, std::int64_t inner);

}  // namespace lamina
