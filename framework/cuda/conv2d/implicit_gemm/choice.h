#pragma once

#include "lamina/cuda/conv2d/implicit_gemm/layout.h"
#include "lamina/kernel/preparation.h"

/// Which of the compiled tiles a convolution runs on. By rule, not by trial.
namespace lamina::cuda::implicit_gemm {

struct Choice {
  Tile tile;
  int splits = 1;                // of K
  const void* reduce = nullptr;  // the kernel that adds them up
};

/// The tiles that a device may run, in the order in which Tuning::tile counts them.
KernelSet kernels_on(const DeviceDescription& device, Precision precision);

/// Blocks of one launch, all splits counted.
std::int64_t block_count(const ConvGeometry& geometry, std::int64_t images, const Tile& tile, int splits);

/// Bytes that the splits of one launch are kept in; 0 for one.
std::size_t partial_bytes(const ConvGeometry& geometry, std::int64_t images, int splits);

/// The tile and the splits of K that promise the shortest time for launches of `images` images. `workspace` is what
/// partial_bytes may take. Throws Error if no tile fits the device.
Choice choose(const ConvGeometry& geometry, std::int64_t images, const Preparation& preparation, const Layout& layout,
              std::size_t workspace);

}  // namespace lamina::cuda::implicit_gemm
