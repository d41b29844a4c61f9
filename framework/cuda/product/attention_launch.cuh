#pragma once

#include <algorithm>
#include <type_traits>

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/product/attention.h"

/// Which of its instances a kernel of attention is launched as.
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

}  // namespace lamina::cuda
