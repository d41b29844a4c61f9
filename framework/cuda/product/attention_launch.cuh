#pragma once

#include <algorithm>
#include <type_traits>

#include "lamina/base/math.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/product/product.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/rules/lookup/lookup_extents.h"

/// Which of its instances a kernel of attention is launched as, and how.
namespace lamina::cuda {

/// The wider one of keys and values.
inline std::int64_t max_depth(const detail::AttentionExtents& e) { return std::max(e.depth, e.width); }

/// Whether every row begins and ends on whole `bytes`, if the arrays do.
inline bool has_rows_of(int bytes, DType dtype, const detail::AttentionExtents& e) {
  const auto unit = bytes / static_cast<std::int64_t>(size_of(dtype));
  const auto fits = [&](const detail::RowStrides& s, std::int64_t columns) {
    return s.image % unit == 0 && s.head % unit == 0 && s.row % unit == 0 && columns % unit == 0;
  };
  return fits(e.q, e.depth) && fits(e.k, e.depth) && fits(e.v, e.width) && fits(e.output, e.width);
}

/// The same, with the arrays.
inline bool has_rows_of(int bytes, const Preparation& p, const detail::AttentionExtents& e) {
  const auto aligned = [&](const View& view) { return view.alignment % bytes == 0; };
  return has_rows_of(bytes, p.input().format.dtype, e) &&
         std::all_of(p.inputs.begin(), p.inputs.begin() + 3, aligned) && aligned(p.output());
}

/// D and E, at most.
template <int most>
using Width = std::integral_constant<int, most>;

/// Calls launch(Width, a null pointer of the element type).
template <class Launch>
void with_attention_types(DType dtype, const detail::AttentionExtents& e, const Launch& launch) {
  const auto run = [&](auto* type) {
    const std::int64_t most = max_depth(e);
    if constexpr (sizeof(*type) == 2) {  // of f32 narrow heads are too rare for kernels of their own
      if (most <= 32) return launch(Width<32>(), type);
    }
    most <= 64 ? launch(Width<64>(), type) : launch(Width<128>(), type);
  };
  with_element_type(dtype, run);
}

template <class T, class Kernel>
void launch_attention(Kernel* kernel, dim3 grid, int threads, int shared_bytes, const detail::AttentionExtents& e,
                      std::span<const Tensor> inputs, Tensor& output, Stream stream) {
  reserve_shared_memory(output.device().index, reinterpret_cast<const void*>(kernel), shared_bytes);
  launch_kernel(kernel,
                {.grid = grid,
                 .block = dim3(static_cast<unsigned>(threads)),
                 .shared_bytes = static_cast<std::size_t>(shared_bytes)},
                stream, elements<T>(inputs[0]), elements<T>(inputs[1]), elements<T>(inputs[2]),
                e.masked ? elements<T>(inputs[3]) : nullptr, elements<T>(output), e);
}

/// A block for every `block_rows` rows of each group, y, and image, z.
inline dim3 grid_of_rows(const detail::AttentionExtents& e, int block_rows) {
  const std::int64_t blocks = detail::ceil_div<std::int64_t>(e.heads / e.groups * e.length, block_rows);
  const auto along = [](std::int64_t count) { return static_cast<unsigned>(std::min<std::int64_t>(count, 65535)); };
  return {grid_for(blocks, 1), along(e.groups), along(e.images)};
}

}  // namespace lamina::cuda
