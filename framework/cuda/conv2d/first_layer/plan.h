#pragma once

#include <optional>

#include "lamina/cuda/conv2d/first_layer/params.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

/// Host side of the sm_90a convolution: how a problem is cut up. Plain numbers, no CUDA.
namespace lamina::cuda::first_layer {

/// Which kernel instance, and how it is launched.
struct Plan {
  Params params;    ///< all but the pointers
  int filters = 0;  ///< output channels per block: 32, 48, 64 or 96
  int blocks = 0;
  int shared_bytes = 0;  ///< dynamic
  bool split = false;    ///< operands as high and residual: weights and ring are stored twice
};

/// What the plan needs to know of the device and of the kernel's build.
struct Limits {
  int multiprocessors = 0;
  int shared_bytes = 0;      ///< dynamic shared memory that one block can have
  int computing_groups = 0;  ///< each has a store buffer
  int raw_slots = 0;         ///< ring rows that are on their way as image rows
};

/// True if the geometry is one that the kernel's K order and index arithmetic can express.
bool expressible(const ConvGeometry& geometry);

/// True if the epilogue can do the pooling: small square windows, whole 16-byte units of nhwc.
bool poolable(const ConvProblem& problem, const Preparation& preparation);

/// The cheapest plan by a clock estimate; nothing if not even a narrow strip fits the shared memory.
/// Precondition: `expressible`, and `poolable` if there is a pool.
std::optional<Plan> plan(const ConvProblem& problem, const Preparation& preparation, const Limits& limits);

/// K unit `half` (0 or 1) of a k16 step: rows kernel_row .. of channel, columns kernel_column ..; empty when padding
/// the step to 16.
struct Unit {
  int channel = 0, kernel_row = 0, kernel_column = 0;
  bool empty = false;
};
struct Steps {
  Unit unit[max_steps][2];
};

/// Fills the step table of `params` (whose shape fields and plane_units are set) and says what each unit multiplies.
Steps order_steps(Params& params);

}  // namespace lamina::cuda::first_layer
