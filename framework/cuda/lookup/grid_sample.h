#pragma once

#include <cstdint>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/problems.h"

namespace lamina::cuda {

/// Images and grids of two or three dimensions, x first.
struct GridExtents {
  int dims = 2;
  std::int64_t images = 1, channels = 1;
  std::int64_t sizes[3] = {1, 1, 1};  // of the input: W, H, D
  std::int64_t pixels = 1;            // of the output, of one image
};

/// See cpu/lookup/grid_sample.h; f32, f16 or bf16 in the memory of CUDA device `device`, the grid likewise or f32.
void grid_sample(int device, const GridSampleProblem& problem, const GridExtents& extents, DType dtype, DType grid_type,
                 const void* input, const void* grid, void* output, Stream stream);

}  // namespace lamina::cuda
