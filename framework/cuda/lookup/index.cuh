#pragma once

#include <cstdint>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/rules/lookup/lookup_extents.h"
#include "lamina/tensor/dtype.h"

/// Indices as gather and scatter read them, see cpu/lookup/index.h.
namespace lamina::cuda {

/// Indices of i64 or i32: kernels are compiled once for both, and reading one waits for memory anyhow.
struct Indices {
  const void* data;
  bool wide;
  Fault* fault;  // or null

  Indices(DType dtype, const void* indices, Fault* note) : data(indices), wide(dtype == DType::i64), fault(note) {}
  /// Where the index at i is among `extent`; -1: outside, which is noted. That is a store over the bus, but only then;
  /// whichever thread is the last to say so may have it.
  __device__ std::int64_t place(std::int64_t i, std::int64_t extent) const {
    const std::int64_t index =
        wide ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
    const std::int64_t place = index < 0 ? index + extent : index;
    if (place >= 0 && place < extent) return place;
    if (fault != nullptr) *fault = {Fault::outside, index, extent};
    return -1;
  }
};

/// The slice that the `depth` components from `first` on name; -1: outside.
__device__ inline std::int64_t slice_of(const detail::IndexExtents& e, const Indices& indices, std::int64_t first) {
  std::int64_t slice = 0;
#pragma unroll 1
  for (int d = 0; d < e.depth; ++d) {
    const std::int64_t place = indices.place(first + d, e.extents[d]);
    if (place < 0) return -1;
    slice += place * e.strides[d];
  }
  return slice;
}

}  // namespace lamina::cuda
