#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/rules/lookup/lookup_extents.h"
#include "lamina/tensor/dtype.h"

/// Indices as gather and scatter read them.
namespace lamina::cpu {

/// Where index i is among `extent`: negative ones count from the end. Throws Error for one that is outside.
inline std::int64_t place_of(std::int64_t i, std::int64_t extent) {
  const std::int64_t place =
      i < 0 ? i + extent : i;  // no index is so low that this overflows: extents are not negative
  if (place < 0 || place >= extent) detail::fail_by({Fault::outside, i, extent});
  return place;
}

/// The slice that the `depth` components at `indices` name.
template <class Index>
std::int64_t slice_of(const detail::IndexExtents& e, const Index* indices) {
  std::int64_t slice = 0;
  for (std::size_t d = 0; d < static_cast<std::size_t>(e.depth); ++d) {
    slice += place_of(indices[d], e.extents[d]) * e.strides[d];
  }
  return slice;
}

/// Calls f with the indices as what they are.
template <class F>
void with_index_type(DType dtype, const void* indices, F&& f) {
  dtype == DType::i32 ? f(static_cast<const std::int32_t*>(indices)) : f(static_cast<const std::int64_t*>(indices));
}

/// Throws Error if one of them is outside.
template <class Index>
void check_places(const Index* indices, std::int64_t count, std::int64_t extent) {
  const auto most = static_cast<std::uint64_t>(extent);
  std::uint64_t outside = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    outside |= static_cast<std::uint64_t>(static_cast<std::uint64_t>(indices[i]) + most >= 2 * most);
  }
  for (std::int64_t i = 0; outside != 0 && i < count; ++i) (void)place_of(indices[i], extent);
}

/// Calls f(i, place) for the indices [begin, end) of kind `elements`: index i names the element `place` of the data.
template <class Index, class F>
void for_each_place(const detail::IndexExtents& e, const Index* indices, std::int64_t begin, std::int64_t end,
                    const F& f) {
  const auto last = static_cast<std::size_t>(e.rank - 1), dim = static_cast<std::size_t>(e.dim);
  const std::int64_t width = e.index_extents[last];
  // Of a row, from `base` on: `across` from one element to the next, `step` from one index to the next.
  const auto row = [&](std::int64_t i, std::int64_t stop, std::int64_t base, auto across, auto step) {
    for (; i < stop; ++i, base += across) {
      const std::int64_t index = indices[i];
      f(i, base + (index < 0 ? index + e.reach : index) * step);
    }
  };
  constexpr std::integral_constant<std::int64_t, 0> none;
  constexpr std::integral_constant<std::int64_t, 1> one;
  for (std::int64_t i = begin; i < end;) {
    std::int64_t base = 0, rest = i / width;
    for (std::size_t d = last; d-- > 0; rest /= e.index_extents[d]) {
      if (d != dim) base += rest % e.index_extents[d] * e.data_strides[d];
    }
    const std::int64_t column = i % width, stop = std::min({end, i - column + width, i + 512});
    check_places(indices + i, stop - i, e.reach);
    dim == last ? row(i, stop, base, none, one) : row(i, stop, base + column, one, e.data_strides[dim]);
    i = stop;
  }
}

}  // namespace lamina::cpu
