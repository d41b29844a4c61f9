#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

#include "lamina/cuda/runtime/stream.h"

/// The one way in which kernels are launched.
namespace lamina::cuda {

struct Launch {
  dim3 grid, block;
  std::size_t shared_bytes = 0;  ///< dynamic
  int cluster = 1;               ///< blocks of a CTA cluster, along x
  /// The kernel may start while the one before it in the stream still runs, and waits for it itself: see overlap.cuh.
  /// On devices before compute capability 9.0 it starts behind it all the same. As much of a multiprocessor's memory as
  /// can be is then shared memory: it is divided anew only when the multiprocessor is idle, so kernels that overlap, or
  /// follow each other closely, have to agree, and convolutions need it.
  bool overlaps = true;
};

/// Enqueues `kernel` on the current device. Throws Error if the launch is refused.
void launch_kernel(const void* kernel, const Launch& how, Stream stream, void** arguments);

template <class... Parameters, class... Arguments>
void launch_kernel(void (*kernel)(Parameters...), const Launch& how, Stream stream, Arguments&&... arguments) {
  std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  std::apply(
      [&](auto&... value) {
        void* addresses[] = {&value...};
        launch_kernel(reinterpret_cast<const void*>(kernel), how, stream, addresses);
      },
      values);
}

/// Blocks for `work` pieces, `threads` to a block; kernels stride over what a grid cannot hold.
inline unsigned grid_for(std::int64_t work, int threads) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  const std::int64_t blocks = (work + threads - 1) / threads;
  return static_cast<unsigned>(blocks < most ? blocks : most);
}
inline Launch threads_for(std::int64_t work, int threads) {
  return {.grid = dim3(grid_for(work, threads)), .block = dim3(static_cast<unsigned>(threads))};
}

/// Lets a kernel have up to `bytes` of dynamic shared memory on `device`; to be called before it is launched. The limit
/// belongs to the kernel, not to one launch: give all that any needs. `carveout`: the share of a multiprocessor's
/// memory that shall be shared memory, in percent. Does nothing in a dry run.
void reserve_shared_memory(int device, const void* kernel, int bytes, int carveout = cudaSharedmemCarveoutMaxShared);

}  // namespace lamina::cuda
