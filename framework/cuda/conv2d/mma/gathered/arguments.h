#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lamina/cuda/divider.h"
#include "lamina/cuda/finish.h"
#include "lamina/cuda/tensor_core/operand_rows.h"
#include "lamina/kernel/conv_geometry.h"
#include "lamina/tensor/dtype.h"

/// What the host and the device code of the implicit GEMM agree on. docs/inside/implicit_gemm.md has the pictures.
namespace lamina::cuda::mma::gathered {

inline constexpr int max_kernel = 127;  // per axis: what fits the fields of Position::bounds
inline constexpr int reduce_threads = 128;

/// Where something lies in the staged input, in units, and which taps of the window exist there. For a row of the tile
/// (an output pixel) `offset` is its window's corner, for a tap of the window its distance from the corner. The four
/// bytes of both `bounds` are so made that their sum has every byte's top bit set exactly if the tap is in the image:
///   byte     tap       row             sum >= 128 if
///   0        kh        128 - first     kh >= first        (first row of the window inside the image)
///   1        127 - kh  end             kh < end           (one past the last)
///   2, 3     the same for columns
struct Position {
  unsigned offset = 0;
  unsigned bounds = 0;
};

/// A tap that no row contains: it fills K up to a whole step.
inline constexpr Position no_tap{0, 0};

constexpr unsigned tap_bounds(int kh, int kw) {
  return static_cast<unsigned>(kh | (127 - kh) << 8 | kw << 16) | static_cast<unsigned>(127 - kw) << 24;
}

/// The row in shared memory of a tile's filter m. Of 32 filters those 8t ... 8t + 7 lie so that lane 4g + t of a warp
/// finds all their sums in its four fragments of a pixel: mma.sync gives it columns 2t and 2t + 1 of each.
__host__ __device__ constexpr int row_of_filter(int m) {
  return (m & ~31) | (m >> 1 & 3) << 3 | (m >> 3 & 3) << 1 | (m & 1);
}

/// Two neighbouring pixels of a row as one of twice the channels, 4 each: images of 3 channels then come in units of 16
/// bytes. Where the window's corner would fall between the two of a pair, a pixel of zeros stands before the row.
struct Fold {
  static constexpr int pixels = 2, channels = 4;
  bool folded = false;
  int shift = 0;  // 1: that pixel is there
};

/// What the device divides by.
struct Dividers {
  Divider m_tiles, n_tiles, groups, plane, out_width, dilation_height, dilation_width;
};

struct Arguments {
  ConvGeometry geometry;                 // batch: the images of this launch
  const void* input = nullptr;           // [images, H, W, groups, padded channels of a group] in units of unit_bytes
  const void* weight = nullptr;          // [groups, m_tiles, steps, block_m, 128 bytes], rows placed and swizzled
  const float* bias = nullptr;           // [OC], or null
  const FilterRange* filters = nullptr;  // [OC], fp32 only
  const Position* taps = nullptr;        // [steps * 128 / unit_bytes]
  void* output = nullptr;                // [images, OH, OW, out_pitch]
  float* partial = nullptr;              // [splits, images * OH * OW, groups, quads * 4], if splits > 1
  DType output_type = DType::f32;
  Finish finish;
  int out_pitch = 0;           // elements from pixel to pixel of the output
  bool out_in_eights = false;  // eight channels of the output are stored at a time, and the residual read so
  int group_out_channels = 0;
  int quads = 0;                 // of a group's filters, four each
  int pixels = 0;                // images * OH * OW
  int block_m = 0;               // of the tile in use
  int m_tiles = 0, n_tiles = 0;  // per group
  unsigned tiles = 0;            // of all groups and splits
  Dividers by;
  int steps = 0, steps_per_split = 0, splits = 1;
  unsigned unit_elements = 4;
  unsigned units_per_pixel = 0;  // all groups
  unsigned units_per_group = 0;
  int folded_kernel = 0;  // see Fold: the kernel's width in pixels, 0 if none are folded
};

/// One compiled tile: block_m filters x block_n pixels, gathered in units of unit_bytes.
struct Tile {
  int block_m = 0, block_n = 0, threads = 0;
  int unit_bytes = 16;
  int resident = 1;  // blocks whose registers one multiprocessor has
  double rate = 0;   // multiply-adds per clock cycle of a multiprocessor full of these blocks, measured on an H200
  std::size_t shared_bytes = 0;
  const void* kernel = nullptr;  // __global__ void(Arguments)
};

struct KernelSet {
  std::vector<Tile> tiles;
  const void* reduce = nullptr;  // __global__ void(Arguments): adds up the splits, one thread per quad of a pixel
};

/// What is compiled for a precision, in the order in which Tuning::tile counts: CMakeLists.txt.
KernelSet kernels_fp32();
KernelSet kernels_tf32();
KernelSet kernels_fp16();
KernelSet kernels_bf16();

}  // namespace lamina::cuda::mma::gathered
