#pragma once

#include <algorithm>
#include <type_traits>

#include "lamina/base/math.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/product/attention.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/launch.h"

/// Which of its instances a kernel of attention is launched as, and how.
namespace lamina::cuda {

/// D and E, at most.
template <int most>
using Width = std::integral_constant<int, most>;

/// Calls launch(Width, a null pointer of the element type).
template <class Launch>
void with_attention_types(DType dtype, const detail::AttentionExtents& e, const Launch& launch) {
  const auto run = [&](auto* type) {
    std::max(e.depth, e.width) <= 64 ? launch(Width<64>(), type) : launch(Width<128>(), type);
  };
  with_element_type(dtype, run);
}

/// A block for every `block_rows` rows of each image and group.
template <class T, class Kernel>
void launch_attention(Kernel* kernel, int device, int block_rows, int threads, int shared_bytes,
                      const detail::AttentionExtents& e, const AttentionPointers& p, Stream stream) {
  const std::int64_t pairs = e.images * e.groups;
  if (pairs == 0 || e.heads == 0 || e.length == 0 || e.width == 0) return;
  const DeviceGuard guard(device);
  reserve_shared_memory(device, reinterpret_cast<const void*>(kernel), shared_bytes);
  const std::int64_t blocks = detail::ceil_div<std::int64_t>(e.heads / e.groups * e.length, block_rows);
  const dim3 grid(grid_for(blocks, 1), static_cast<unsigned>(std::min<std::int64_t>(pairs, 65535)));
  launch_kernel(kernel,
                {.grid = grid,
                 .block = dim3(static_cast<unsigned>(threads)),
                 .shared_bytes = static_cast<std::size_t>(shared_bytes)},
                stream, static_cast<const T*>(p.q), static_cast<const T*>(p.k), static_cast<const T*>(p.v),
                static_cast<const T*>(p.mask), static_cast<T*>(p.output), e);
}

}  // namespace lamina::cuda
