#pragma once

#include <cstdint>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cuda {

/// An activation as the resampled dimensions divide it, outermost first: runs of others, 1 if there are none, before,
/// between and behind them.
struct ResampleArguments {
  static constexpr int max_axes = 4;
  struct Axis {
    int problem_axis = 0;  // which of ResampleProblem::axes
    int taps = 1;
    std::int64_t extent = 1;         // of the output
    std::int64_t step = 1;           // elements of the input from one index to the next
    const int* indices = nullptr;    // [extent, taps]
    const float* weights = nullptr;  // [extent, taps]
  };
  int axes = 0;
  Axis axis[max_axes];
  std::int64_t run[max_axes + 1] = {};       // extents of the runs
  std::int64_t run_step[max_axes + 1] = {};  // elements of the input from one to the next
  std::int64_t count = 0;                    // elements of the output
};

/// See ResampleProblem; f32, f16 or bf16 in the memory of CUDA device `device`.
void resample(int device, DType dtype, const ResampleArguments& arguments, const void* input, void* output,
              Stream stream);

}  // namespace lamina::cuda
