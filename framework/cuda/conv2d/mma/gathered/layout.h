#pragma once

#include <cstdint>
#include <vector>

#include "lamina/cuda/conv2d/mma/gathered/arguments.h"
#include "lamina/kernel/preparation.h"
#include "lamina/tensor/format.h"

/// What the implicit GEMM multiplies: host logic, and the rearrangement of what it cannot read as it is.
namespace lamina::cuda::mma::gathered {

/// How the operands of a convolution lie in memory.
struct Layout {
  int element_bytes = 4;
  int unit_bytes = 16;  // of channels that one cp.async moves
  unsigned unit_elements = 4;
  unsigned units_per_group = 0;  // of one pixel
  unsigned units_per_pixel = 0;  // all groups
  int steps = 0;                 // of 128 bytes of K

  /// Which term of K a channel of a group is under tap `tap` of `taps`. 128 bytes of channels come at a time, and for
  /// those all taps: a block walks its window over one narrow slab of the input, which stays in L1 meanwhile.
  unsigned term_of(unsigned taps, unsigned tap, unsigned channel) const {
    const unsigned slab = static_cast<unsigned>(step_bytes / unit_bytes), unit = channel / unit_elements;
    const unsigned first = unit / slab * slab, rest = units_per_group - first, width = rest < slab ? rest : slab;
    return (first * taps + tap * width + unit - first) * unit_elements + channel % unit_elements;
  }
};

/// The convolution of folded pixels, and how they are folded; `geometry` itself where that gains nothing.
ConvGeometry folded(const ConvGeometry& geometry, Precision precision, Fold& fold);

Layout make_layout(const ConvGeometry& geometry, Precision precision);

/// What is multiplied, and how many images at once.
struct Product {
  ConvGeometry geometry;  // of the input as the kernel reads it
  Layout layout;
  bool in_place = false;  // it reads the activation as it is: its channels lie together, in whole units
  Fold fold = {};

  /// Images of one launch: all, or as many as the workspace, 32-bit offsets and the grid allow; 0 if not even one.
  std::int64_t images_per_launch(std::size_t workspace_limit) const;

  /// Bytes of the staged input of so many images, aligned for what follows it; 0 if it is read in place.
  std::size_t staged_bytes(std::int64_t images) const;
};

/// The same for all batches but for geometry.batch.
Product product_of(const ConvGeometry& geometry, const Preparation& preparation);

/// Every tap of K in its order, filled up to whole steps. `geometry`: as it is multiplied.
std::vector<Position> make_taps(const ConvGeometry& geometry, const Layout& layout);

/// The weights in the order the kernel reads them: [groups, m_tiles, steps, block_m, 128 bytes], rows swizzled, zeros
/// where the tile, the last step or a folded kernel reaches past the matrix. `geometry`: as it is. In fp32, filters[i]
/// says by what filter i was multiplied.
std::vector<unsigned char> pack_weights(const ConvGeometry& geometry, const Fold& fold, const Layout& layout,
                                        Precision precision, int block_m,
                                        const float* weight,                 // [OC, C / groups, KH, KW]
                                        std::vector<FilterRange>& filters);  // [OC] in fp32, else empty

/// Enqueues the rearrangement of `images` images [images, C, H, W] or [images, H, W, C] into [images, H, W, groups,
/// padded channels], folded if `fold` says so, rounded to `stored`, and checks the launch. `geometry` is that of the
/// images as they are.
void stage_channels_last(const ConvGeometry& geometry, std::int64_t images, Format input_format, const void* input,
                         DType stored, const Layout& layout, const Fold& fold, void* staged, cudaStream_t stream);

}  // namespace lamina::cuda::mma::gathered
