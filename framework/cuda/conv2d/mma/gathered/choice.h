#pragma once

#include <optional>

#include "lamina/cuda/conv2d/mma/gathered/layout.h"
#include "lamina/kernel/preparation.h"

/// Which of the compiled tiles a convolution runs on. By rule, not by trial.
namespace lamina::cuda::mma::gathered {

struct Choice {
  Tile tile;
  int splits = 1;                // of K
  const void* reduce = nullptr;  // the kernel that adds them up
  std::int64_t images = 0;       // of a launch
  std::int64_t blocks = 0;       // of a launch: as many as there are tiles, or fewer that go from one to the next
  double cycles = 0;             // expected

  /// All of a choice that its bits depend on: tiles add up a step's terms alike, and the splits are added in their
  /// order.
  bool adds_up_like(const Choice& other) const { return splits == other.splits; }
};

KernelSet kernels_of(Precision precision);

/// Tiles of one launch, all splits counted.
std::int64_t tile_count(const ConvGeometry& geometry, std::int64_t images, const Tile& tile, int splits);

/// Bytes that the splits of one launch are kept in; 0 for one.
std::size_t partial_bytes(const ConvGeometry& geometry, std::int64_t images, int splits);

/// The tile and the splits of K that promise the shortest time; what they need fits into the workspace. Throws Error if
/// no tile fits the device.
Choice choose(const Product& product, const Preparation& preparation);

}  // namespace lamina::cuda::mma::gathered
