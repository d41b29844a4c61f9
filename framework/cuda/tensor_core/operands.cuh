#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "lamina/cuda/ptx/tf32.h"
#include "lamina/cuda/tensor_core/operand_rows.h"
#include "lamina/kernel/precision.h"

/// What kernels on mma.sync multiply in each precision.
namespace lamina::cuda {

/// `Element` is how operands are stored, 32 bytes of K being 8 or 16 of them, `Word` what one instruction multiplies.
template <class Stored, class Multiplied, Precision which>
struct MmaOperand {
  using Element = Stored;
  using Word = Multiplied;
  static constexpr Precision precision = which;
  static constexpr bool split = which == Precision::fp32;  // three products of TF32 words: split_tf32.cuh

  /// A stored pixel as it is multiplied.
  __device__ static float value(float x) {
    return which == Precision::tf32 ? __uint_as_float(round_to_tf32(__float_as_uint(x))) : x;
  }
};
struct Fp16 : MmaOperand<__half, __half, Precision::fp16> {};
struct Bf16 : MmaOperand<__nv_bfloat16, __nv_bfloat16, Precision::bf16> {};
struct Tf32 : MmaOperand<float, ptx::Tf32, Precision::tf32> {};
struct SplitTf32 : MmaOperand<float, ptx::Tf32, Precision::fp32> {};

}  // namespace lamina::cuda
