#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "lamina/cuda/conv2d/implicit_gemm/arguments.h"

/// The Ampere instructions that implicit_gemm_kernel.cuh is made of, one thin wrapper each, and the four operand types.
/// Source: PTX ISA, sections "cp.async", "ldmatrix" and "mma.m16n8k8 / m16n8k16 fragments". All need sm_80.
namespace lamina::cuda::implicit_gemm {

/// Address of a shared-memory object as the instructions below want it.
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// Starts a copy of 16 bytes that passes by L1, for data that this block reads once; writes zeros and reads nothing
/// unless `valid`.
__device__ __forceinline__ void copy_async_once(unsigned destination, const void* source, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(destination), "l"(source), "r"(valid ? 16 : 0)
               : "memory");
}

/// The same through L1, 4, 8 or 16 bytes.
template <int bytes>
__device__ __forceinline__ void copy_async(unsigned destination, const void* source, bool valid) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "the sizes cp.async knows");
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(destination), "l"(source), "n"(bytes),
               "r"(valid ? bytes : 0)
               : "memory");
}

/// Closes a group of copies.
__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

/// Waits until at most `pending` of this thread's groups are unfinished.
template <int pending>
__device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(pending) : "memory");
}

/// Loads four 8 x 16-byte matrices: lanes 8i .. 8i+7 name the rows of matrix i, whose row g, word t lands in
/// value[i] of lane 4g + t.
__device__ __forceinline__ void load_matrices(unsigned (&value)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
               : "r"(address)
               : "memory");
}

/// The operand types. `Element` is how they are stored; 32 bytes of K are 8 or 16 of them.
struct Tf32 {
  using Element = float;  // the tensor cores ignore the low 13 bits
};
struct SplitTf32 {
  using Element = float;  // fp32, as three TF32 products
};
struct Fp16 {
  using Element = __half;
};
struct Bf16 {
  using Element = __nv_bfloat16;
};

/// d = a b + c over 32 bytes of K: a [16, K], b [K, 8], d and c [16, 8], in the fragments of the PTX ISA.
template <class Op>
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                         const float (&c)[4]) {
#define LAMINA_MMA(shape_and_types)                                                                                \
  asm("mma.sync.aligned." shape_and_types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};\n" \
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                                             \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]))
  if constexpr (std::is_same_v<Op, Fp16>) {
    LAMINA_MMA("m16n8k16.row.col.f32.f16.f16.f32");
  } else if constexpr (std::is_same_v<Op, Bf16>) {
    LAMINA_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
  } else {
    LAMINA_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
  }
#undef LAMINA_MMA
}

/// An fp32 word cut in two TF32 words: value = high + low / split_scale, to within 2^-21 of itself. The low word is
/// scaled up so that it does not fall among the subnormals where the value itself is tiny.
inline constexpr float split_scale = 8192.0f;

__device__ __forceinline__ void split_tf32(unsigned value, unsigned& high, float& low) {
  high = (value + 0x1000u) & 0xffffe000u;  // to nearest; what overflows is caught in the epilogue
  low = __uint_as_float(value) - __uint_as_float(high);
}

}  // namespace lamina::cuda::implicit_gemm
