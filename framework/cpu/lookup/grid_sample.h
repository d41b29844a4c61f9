#pragma once

#include "lamina/base/thread_pool.h"
#include "lamina/kernel/problems.h"

namespace lamina::cpu {

/// See GridSampleProblem; also [N, C, D, H, W] with a grid of (x, y, z), linear or nearest. A coordinate that is not
/// finite lies outside, as PyTorch has it on a GPU.
void grid_sample(const GridSampleProblem& problem, const Shape& in, const Shape& out,
                 const float* input,  // [N, C, H, W]
                 const float* grid,   // [N, OH, OW, 2]
                 float* output,       // [N, C, OH, OW]
                 ThreadPool& pool);

}  // namespace lamina::cpu
