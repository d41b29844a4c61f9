#pragma once

#include <cstdint>

#include "lamina/kernel/rules/lookup_extents.h"
#include "lamina/tensor/dtype.h"

/// Indices as gather and scatter read them, see cpu/lookup/index.h.
namespace lamina::cuda {

__device__ inline std::int64_t place_of(std::int64_t i, std::int64_t extent) {
  if (i < 0) i += extent;
  return i >= 0 && i < extent ? i : -1;
}

/// Indices of i64 or i32: kernels are compiled once for both, and reading one waits for memory anyhow.
struct Indices {
  const void* data;
  bool wide;

  Indices(DType dtype, const void* indices) : data(indices), wide(dtype == DType::i64) {}
  __device__ std::int64_t operator[](std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
  }
};

/// The slice that the `depth` components from `first` on name; -1: outside.
__device__ inline std::int64_t slice_of(const detail::IndexExtents& e, const Indices& indices, std::int64_t first) {
  std::int64_t slice = 0;
#pragma unroll 1
  for (int d = 0; d < e.depth; ++d) {
    const std::int64_t place = place_of(indices[first + d], e.extents[d]);
    if (place < 0) return -1;
    slice += place * e.strides[d];
  }
  return slice;
}

}  // namespace lamina::cuda
