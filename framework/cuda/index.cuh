#pragma once

#include <cstdint>

#include "lamina/kernel/lookup_extents.h"
#include "lamina/tensor/dtype.h"

/// Indices as gather and scatter read them, see cpu/index.h.
namespace lamina::cuda {

__device__ inline std::int64_t place_of(std::int64_t i, std::int64_t extent) {
  if (i < 0) i += extent;
  return i >= 0 && i < extent ? i : -1;
}

template <class Index>
__device__ inline std::int64_t slice_of(const detail::IndexExtents& e, const Index* indices) {
  std::int64_t slice = 0;
  for (int d = 0; d < e.depth; ++d) {
    const std::int64_t place = place_of(indices[d], e.extents[d]);
    if (place < 0) return -1;
    slice += place * e.strides[d];
  }
  return slice;
}

/// Calls f with a null pointer to the type of indices.
template <class F>
void with_index_type(DType dtype, F&& f) {
  dtype == DType::i32 ? f(static_cast<const std::int32_t*>(nullptr)) : f(static_cast<const std::int64_t*>(nullptr));
}

}  // namespace lamina::cuda
