#pragma once

#include <cuda.h>

#include <cstdint>

#include "lamina/cuda/ptx/shared.cuh"

/// TMA with a tensor map (tensor_core/tensor_map.h), sm_90. PTX ISA, "cp.async.bulk.tensor", "tensor data im2col mode".
namespace lamina::cuda::ptx {

__device__ __forceinline__ void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// A pixel: of a column of windows the first's corner in the input, of a box of pixels the corner.
struct Corner {
  int image = 0, row = 0, column = 0;
};

/// Copies the map's bytes of channels from `channel` on, at tap (tap_row, tap_column) of the windows of the map's
/// number of consecutive output pixels; zeros where a tap lies in the padding. Offsets of taps are in input pixels.
__device__ __forceinline__ void load_im2col(void* shared, const CUtensorMap& map, int channel, Corner corner,
                                            int tap_row, int tap_column, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(shared_address(shared)),
      "l"(&map), "r"(channel), "r"(corner.column), "r"(corner.row), "r"(corner.image), "r"(shared_address(barrier)),
      "h"(static_cast<std::uint16_t>(tap_column)), "h"(static_cast<std::uint16_t>(tap_row))
      : "memory");
}

/// Copies the map's box of a matrix from (row, column) on; zeros where it reaches past the ends.
__device__ __forceinline__ void load_box(void* shared, const CUtensorMap& map, int column, int row,
                                         std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(shared_address(shared)),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(barrier))
      : "memory");
}

/// Copies the map's box of images, 128 bytes of channels from `channel` on of pixels from `corner` on, row by row;
/// zeros where it reaches outside of the image, also before its first row and column.
__device__ __forceinline__ void load_box(void* shared, const CUtensorMap& map, int channel, Corner corner,
                                         std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(channel), "r"(corner.column), "r"(corner.row), "r"(corner.image), "r"(shared_address(barrier))
      : "memory");
}

/// Stores a box of shared memory to a matrix at (row, column), except what lies outside of it; bulk_commit closes the
/// group.
__device__ __forceinline__ void store_box(const CUtensorMap& map, std::uint32_t shared, int column, int row) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
               "r"(column), "r"(row), "r"(shared)
               : "memory");
}

/// The same to images.
__device__ __forceinline__ void store_box(const CUtensorMap& map, std::uint32_t shared, int channel, Corner corner) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(&map),
               "r"(channel), "r"(corner.column), "r"(corner.row), "r"(corner.image), "r"(shared)
               : "memory");
}

}  // namespace lamina::cuda::ptx
