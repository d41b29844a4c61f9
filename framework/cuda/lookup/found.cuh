#pragma once

#include <cstdint>

/// Lists of what threads and blocks find, one behind the other.
namespace lamina::cuda {

/// What the lanes of a warp up to this one have in all.
template <class T>
__device__ __forceinline__ T sum_up_to(unsigned lane, T value) {
#pragma unroll
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    const T other = __shfl_up_sync(0xffffffffu, value, distance);
    if (lane >= distance) value += other;
  }
  return value;
}

/// What blocks before this one have found, and all. Called by all threads.
struct Found {
  std::int64_t before, all;
};
__device__ inline Found sum_counts(const std::int64_t* counts) {
  __shared__ unsigned long long before, all;
  if (threadIdx.x == 0) before = all = 0;
  __syncthreads();
  for (unsigned block = threadIdx.x; block < gridDim.x; block += blockDim.x) {
    const auto found = static_cast<unsigned long long>(counts[block]);
    if (block < blockIdx.x) atomicAdd(&before, found);
    atomicAdd(&all, found);
  }
  __syncthreads();
  return {static_cast<std::int64_t>(before), static_cast<std::int64_t>(all)};
}

/// The number in front, and zeros behind what was found.
__device__ inline void end_list(std::int64_t* list, std::int64_t found, std::int64_t width, std::int64_t room) {
  if (blockIdx.x == 0 && threadIdx.x == 0) list[0] = found;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x, end = min(found, room / width) * width;
  for (std::int64_t i = end + std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < room; i += step) {
    list[1 + i] = 0;
  }
}

}  // namespace lamina::cuda
