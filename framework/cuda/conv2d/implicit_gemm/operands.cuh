#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "lamina/cuda/ptx/tf32.h"
#include "lamina/cuda/tensor_core/operand_rows.h"

/// The operand types. `Element` is how they are stored, 32 bytes of K being 8 or 16 of them, `Word` what one
/// instruction multiplies, `value` a stored pixel as it is multiplied.
namespace lamina::cuda::implicit_gemm {

struct Tf32 {
  using Element = float;
  using Word = ptx::Tf32;
  __device__ static float value(float x) { return __uint_as_float(round_to_tf32(__float_as_uint(x))); }
};
struct SplitTf32 {  // fp32, as three TF32 products
  using Element = float;
  using Word = ptx::Tf32;
  __device__ static float value(float x) { return x; }
};
struct Fp16 {
  using Element = __half;
  using Word = __half;
  __device__ static float value(float x) { return x; }
};
struct Bf16 {
  using Element = __nv_bfloat16;
  using Word = __nv_bfloat16;
  __device__ static float value(float x) { return x; }
};

}  // namespace lamina::cuda::implicit_gemm
