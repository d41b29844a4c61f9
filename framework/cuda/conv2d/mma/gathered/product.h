#pragma once

#include <cstddef>
#include <cstdint>

#include "lamina/cuda/conv2d/mma/gathered/layout.h"
#include "lamina/kernel/preparation.h"

/// What an implicit GEMM multiplies, and how many images at once.
namespace lamina::cuda::mma::gathered {

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

}  // namespace lamina::cuda::mma::gathered
