#pragma once

#include <optional>
#include <vector>

#include "lamina/cuda/runtime/launched.h"
#include "lamina/kernel/problems.h"

/// Fully connected layers of few rows.
namespace lamina::cuda {

/// What every kernel for linear layers takes: rows of the precision's storage type, results of it or f32.
inline bool linear_formats_fit(const Preparation& p) {
  const DType storage = storage_type(p.precision);
  const Format output = p.output().format;
  return p.input().format == Format{storage} && (output == Format{storage} || output == Format{});
}

/// Rows that one pass over the weights serves.
inline constexpr int linear_rows_at_once = 8;

/// Terms of a sum up to which chains of additions are short.
inline constexpr int linear_max_terms = 1 << 18;

/// By plain multiply-adds.
Prepare<LinearProblem> prepare_linear_rows;

/// Rows of codes that linear_code_rows_take takes.
inline constexpr std::int64_t linear_max_code_rows = 65535 * linear_rows_at_once;

/// Of codes, by dp4a: rows of whole 16 bytes.
Takes<LinearProblem> linear_code_rows_take;
Prepare<LinearProblem> prepare_linear_code_rows;

/// Fully connected layers of up to 32 rows (8 in fp32) on Hopper, at the rate at which memory delivers the weights:
/// TMA brings them through a ring in shared memory, and tensor cores, in fp32 multiply-adds, read them there. See
/// stream.cuh.
///
/// A device with wgmma, rows of whole 16 bytes. Tuning: outputs (of a tile: 64 or 128), splits (1 to 8).
Takes<LinearProblem> linear_stream_takes;

/// Throws Error if the tuning names what there is not.
Prepare<LinearProblem> prepare_linear_stream;

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
