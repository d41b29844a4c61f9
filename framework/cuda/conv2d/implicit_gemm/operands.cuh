#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "lamina/cuda/ptx/tf32.h"

/// The operand types. `Element` is how they are stored, 32 bytes of K being 8 or 16 of them, `Word` what one
/// instruction multiplies.
namespace lamina::cuda::implicit_gemm {

struct Tf32 {
  using Element = float;
  using Word = ptx::Tf32;
};
struct SplitTf32 {  // fp32, as three TF32 products
  using Element = float;
  using Word = ptx::Tf32;
};
struct Fp16 {
  using Element = __half;
  using Word = __half;
};
struct Bf16 {
  using Element = __nv_bfloat16;
  using Word = __nv_bfloat16;
};

}  // namespace lamina::cuda::implicit_gemm
