#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lamina/cuda/conv2d/code_ends.h"
#include "lamina/cuda/divider.h"
#include "lamina/cuda/finish.h"
#include "lamina/cuda/tensor_core/fragments.h"
#include "lamina/cuda/tensor_core/operand_rows.h"
#include "lamina/kernel/conv_geometry.h"

/// What the host and the device code of the convolution by mma.sync agree on. docs/inside/grouped.md has the pictures.
namespace lamina::cuda::mma::resident {

inline constexpr int threads = 128;
inline constexpr int unit_bytes = 16;  // of channels: what a row of an 8 x 8 matrix holds
inline constexpr int max_stages = 3;

/// How the filters and channels are bundled. A bundle is filters that are multiplied with the same channels: `packed`
/// whole groups side by side, with zeros off the diagonal, or one of `parts` parts of a group's filters.
struct Bundling {
  int packed = 1, parts = 1;
  int filters = 0;   // of a bundle, as they are
  int channels = 0;  // the same
  int count = 0;     // bundles
};

/// The first group, channel and filter of a bundle.
struct BundlePlace {
  int group, channel, filter, filters;
  __host__ __device__ BundlePlace(const ConvGeometry& g, const Bundling& b, int bundle) {
    // Whole groups need no division, which every block would wait for.
    group = b.parts == 1 ? bundle * b.packed : bundle / b.parts;
    channel = b.parts == 1 ? bundle * b.channels : group * b.channels;
    filter = bundle * b.filters;
    int end = g.out_channels;
    if (b.parts > 1) {
      const int out = g.out_channels / g.groups;
      filter = group * out + (bundle - group * b.parts) * b.filters, end = (group + 1) * out;
    }
    filters = end - filter < b.filters ? end - filter : b.filters;
  }
};

/// Pixels along one axis of the image. Of the input only every `step`-th is looked at by anything; in these steps:
struct Axis {
  int tile = 1, tiles = 1;  // outputs of a block, blocks
  int step = 1;             // pixels of the input
  int stride = 1, dilation = 1;
  int halo = 1;   // inputs of a block
  int apart = 0;  // of columns in shared memory, where every second one lies behind the others (windows of stride 2,
                  // for neighbours to be in different banks): from one half to the other

  __host__ __device__ int place(int input) const { return apart > 0 ? input % 2 * apart + input / 2 : input; }
  __host__ __device__ int row() const { return apart > 0 ? 2 * apart : halo; }
};

/// Units of K that a window of 3 x 3 takes for each unit of channels: pairs of its first two columns, row by row, then
/// its last column, and one that is zero.
inline constexpr int window_slots = 10;

struct Arguments {
  ConvGeometry geometry;
  const void* input = nullptr;          // [N, H, W, C]
  const void* weight = nullptr;         // [bundles, chunks, steps of 2 units, fragments of 8 filters, lane, words]
  const void* bias = nullptr;           // [bundles, fragments * 8] in f32, zeros where there is none; of codes whole
                                        // numbers, and behind a bundle's their factors
  const FilterRange* ranges = nullptr;  // the same, fp32 only
  void* output = nullptr;               // [N, OH, OW, OC], from pixel to pixel output_pitch elements
  int output_pitch = 0;
  bool paired = false;  // which, and the address, are a multiple of two elements
  Finish finish;        // of codes only what is added
  eight_bits::CodeEnds codes;
  std::uint32_t padding = 0;  // of codes: four times what surrounds the image
  Bundling bundling;
  Axis y, x;
  bool window = false;    // rectangles of 8 columns, whose rows stay in registers for all taps: window.cuh
  int run = 1;            // bundles whose results leave together
  int block_bundles = 1;  // of a block
  int bundle_blocks = 1;  // that share out the bundles
  bool shared = false;    // which have the same channels; else theirs follow each other
  int units = 1;          // of channels: of one bundle, in one chunk of them
  int chunks = 1;         // of a bundle's channels
  int steps = 1;          // of two units each: of a chunk
  int fragments = 1;      // of a bundle: 8 filters each
  int pixel_bytes = 0;    // from pixel to pixel in shared memory
  int copy_bytes = 16;    // of one copy: 2, 4, 8 or 16
  // Copies of a pixel; blocks that share out bundles, columns and rows; columns of a tile; units of a tap; a window's.
  Divider by_pieces, by_bundle_blocks, by_tiles_x, by_tiles_y, by_tile_x, by_units, by_kernel_width;
  Divider by_columns, by_rectangles;  // of a block that has rectangles
  // In shared memory: the table of units, biases, stages of pixels and weights, a Results for each warp.
  int biases_offset = 0, ring_offset = 0, results_offset = 0;
  int weight_offset = 0, stage_bytes = 0;  // within a stage; of it
  int stages = 1;
  int store_width = 1;  // elements that every store of a window may have

  /// Which unit of K unit `unit` of a chunk's channels is under a tap.
  __host__ __device__ int slot(int down, int right, int unit) const {
    if (!window) return (down * geometry.kernel_width + right) * units + unit;
    return unit * window_slots + (right < 2 ? down * 2 + right : 6 + down);
  }
};

/// Bytes of weights in one step of a bundle's chunk.
__host__ __device__ constexpr int step_bytes_of(bool split, int fragments) { return fragments * 32 * (split ? 16 : 8); }

/// Where element `e` of unit `unit` meets filter `filter` of a bundle, in elements from the beginning of a chunk's
/// weights. `split`: the high word; the low one is two further. Of codes a lane has neighbouring filters.
__host__ __device__ constexpr std::size_t place_of(int element_bytes, bool split, int fragments, int unit, int e,
                                                   int filter) {
  const FilterPlace at = element_bytes == 1 ? filter_place(filter, fragments) : FilterPlace{0, filter / 8, filter % 8};
  const FragmentPlace place = fragment_place(element_bytes, unit % 2 * (unit_bytes / element_bytes) + e, at.column);
  const auto fragment = static_cast<std::size_t>(unit / 2 * fragments + at.fragment) * 32;
  const auto of_lane = static_cast<std::size_t>((split ? 16 : 8) / element_bytes);
  return (fragment + static_cast<std::size_t>(place.lane)) * of_lane + static_cast<std::size_t>(place.element);
}

/// Bundles whose results a warp stores together, so that rows are whole sectors of memory: of windows.
__host__ __device__ constexpr int run_of(int element_bytes, int n) { return 8 * n * element_bytes < 32 ? 2 : 1; }

/// Where a warp's sums lie on their way out: of some of its m fragments of 16 pixels at a time, those of `run` bundles
/// one after the other; behind them which pixels of the image they are. From pixel to pixel is an odd number of 32
/// bytes: what four lanes write.
template <int m, int n, int run>
struct Results {
  static constexpr int fragments = n * run >= 8 ? 1 : m < 8 / (n * run) ? m : 8 / (n * run);
  static constexpr int pixels = 16 * fragments;
  static constexpr int pitch = (n * run | 1) * 32;
  static constexpr int bytes = pixels * (pitch + static_cast<int>(sizeof(int)));
  static_assert(run == 1 || fragments == m, "a run is stored at once");
  static_assert(m % fragments == 0, "in whole parts");
};

/// One compiled tile: a warp multiplies 16 m pixels x 8 n filters; warps_m of the four lie side by side over pixels.
struct Tile {
  int m = 1, n = 1, warps_m = 4;
  int stride = 0;                // of a window of 3 x 3, over rectangles of 2 m rows x 8 columns; 0: any window
  int run = 1;                   // bundles that a warp stores together
  int results_bytes = 0;         // of a warp
  const void* kernel = nullptr;  // __global__ void(Arguments), `threads` threads a block

  int pixels() const { return 16 * m * warps_m; }
  int warps_n() const { return 4 / warps_m; }
};

/// What is compiled for a precision, or for codes, in the order in which Tuning::tile counts: CMakeLists.txt.
std::vector<Tile> tiles_fp32();
std::vector<Tile> tiles_tf32();
std::vector<Tile> tiles_fp16();
std::vector<Tile> tiles_bf16();
std::vector<Tile> tiles_u8();
std::vector<Tile> tiles_i8();

}  // namespace lamina::cuda::mma::resident
