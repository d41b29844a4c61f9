#pragma once

#include <array>
#include <cstdint>

#include "lamina/kernel/rules/lookup_extents.h"
#include "lamina/tensor/dtype.h"

/// Indices as gather and scatter read them.
namespace lamina::cpu {

/// Where index i is among `extent`: negative ones count from the end. Throws Error for one that is outside.
inline std::int64_t place_of(std::int64_t i, std::int64_t extent) {
  const std::int64_t place =
      i < 0 ? i + extent : i;  // no index is so low that this overflows: extents are not negative
  if (place < 0 || place >= extent) detail::fail_outside(i, extent);
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

/// Coordinates in row-major order, with the offset of the data that they name but for dimension `dim`.
class Walk {
 public:
  /// Begins at element `first` of the indices.
  Walk(const detail::IndexExtents& extents, std::int64_t first) : e_(extents) {
    for (int d = e_.rank - 1; d >= 0; --d) {
      const auto at = static_cast<std::size_t>(d);
      coordinates_[at] = first % e_.index_extents[at];
      first /= e_.index_extents[at];
      if (d != e_.dim) offset_ += coordinates_[at] * e_.data_strides[at];
    }
  }
  std::int64_t offset() const { return offset_; }
  std::int64_t coordinate(int d) const { return coordinates_[static_cast<std::size_t>(d)]; }

  void next() {
    for (int d = e_.rank - 1; d >= 0; --d) {
      const auto at = static_cast<std::size_t>(d);
      const std::int64_t step = d == e_.dim ? 0 : e_.data_strides[at];
      offset_ += step;
      if (++coordinates_[at] < e_.index_extents[at]) return;
      offset_ -= coordinates_[at] * step;
      coordinates_[at] = 0;
    }
  }

 private:
  const detail::IndexExtents& e_;
  std::array<std::int64_t, Shape::max_rank> coordinates_{};
  std::int64_t offset_ = 0;
};

}  // namespace lamina::cpu
