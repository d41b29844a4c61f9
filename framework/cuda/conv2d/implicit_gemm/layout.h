#pragma once

#include <cstdint>
#include <vector>

#include "lamina/cuda/conv2d/implicit_gemm/arguments.h"

/// How the operands of the implicit GEMM lie in memory: host logic, without a CUDA call.
namespace lamina::cuda::implicit_gemm {

/// What one convolution's operands look like in one precision.
struct Layout {
  int element_bytes = 4;
  int unit_bytes = 16;  // of channels that one cp.async moves
  unsigned unit_elements = 4;
  unsigned units_per_group = 0;  // of one pixel
  unsigned units_per_pixel = 0;
  int steps = 0;  // of 128 bytes of K
};

/// The convolution of folded pixels, and how they are folded; `geometry` itself where that gains nothing.
ConvGeometry folded(const ConvGeometry& geometry, Precision precision, Fold& fold);

/// [OC, C, KH, KW] as the weights [OC, 8, KH, KW / 2 rounded up] of folded pixels.
std::vector<float> fold_weights(const ConvGeometry& geometry, const float* weight);

Layout make_layout(const ConvGeometry& geometry, Precision precision);

/// The order of K: 128 bytes of channels at a time, and for each of those all taps. A block then walks its window
/// several times over one narrow slab of the input, which stays in L1 meanwhile.
/// Calls visit(k, kh, kw, channel) for every unit: first term k, tap, first channel within the group.
template <class Visit>
void for_each_unit(const ConvGeometry& geometry, const Layout& layout, Visit&& visit) {
  const unsigned slab = static_cast<unsigned>(step_bytes / layout.unit_bytes);
  unsigned k = 0;
  for (unsigned first = 0; first < layout.units_per_group; first += slab) {
    const unsigned end = first + slab < layout.units_per_group ? first + slab : layout.units_per_group;
    for (int kh = 0; kh < geometry.kernel_height; ++kh) {
      for (int kw = 0; kw < geometry.kernel_width; ++kw) {
        for (unsigned unit = first; unit < end; ++unit, k += layout.unit_elements) {
          visit(k, kh, kw, unit * layout.unit_elements);
        }
      }
    }
  }
}

/// Every tap of K in its order, filled up to whole steps.
std::vector<Position> make_taps(const ConvGeometry& geometry, const Layout& layout);

/// The weights in the order the kernel reads them: [groups, m_tiles, steps, block_m, 128 bytes], rows swizzled, zeros
/// where the tile or the last step reaches past the matrix. In fp32, filters[i] says by what filter i was multiplied.
std::vector<unsigned char> pack_weights(const ConvGeometry& geometry, const Layout& layout, Precision precision,
                                        int block_m,
                                        const float* weight,                 // [OC, C / groups, KH, KW]
                                        std::vector<FilterRange>& filters);  // [OC] in fp32, else empty

}  // namespace lamina::cuda::implicit_gemm
