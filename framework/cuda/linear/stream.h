#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

/// Fully connected layers of up to 32 rows (8 in fp32) on Hopper, at the rate at which memory delivers the weights:
/// TMA brings them through a ring in shared memory, and tensor cores, in fp32 multiply-adds, read them there. See
/// stream.cuh.
namespace lamina::cuda {

/// A device with wgmma, rows of whole 16 bytes. Tuning: outputs (of a tile: 64 or 128), splits (1 to 8).
bool linear_stream_takes(const LinearProblem& problem, const Preparation& preparation);

/// Throws Error if the tuning names what there is not.
std::unique_ptr<Operator> prepare_linear_stream(const LinearProblem& problem, const Preparation& preparation);

/// Weights [out, in] as these kernels read them, for others that share the copy: for each step of 128 bytes of K all
/// outputs' pieces of it, in blocks of 64 rows under the 128-byte swizzle (operand_rows.h), an even number of blocks;
/// rounded as the precision stores them. Bytes, u8.
Tensor pack_linear(const LinearProblem& problem, Precision precision);

/// Weights that f16 holds as well as TF32 would, each output's multiplied by a power of two; laid out as above.
struct ScaledLinear {
  Tensor weights;             ///< u8
  std::vector<float> scales;  ///< [out], 1 / power
};
/// Nothing if some weight would lose bits (tensor_core/weights.h), or `in` is not a multiple of 8.
std::optional<ScaledLinear> pack_scaled_linear(const LinearProblem& problem);

}  // namespace lamina::cuda
