#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/precision.h"

/// cuBLAS, opened when first needed: a binary that never multiplies through it starts on hosts without it.
namespace lamina::cuda {

/// C[i] = A[i] * B[i] + beta * C[i] for i < count, all column-major, as cuBLAS has it.
struct GemmArguments {
  DType operands = DType::f32;  // of A and B: f32, f16 or bf16
  DType result = DType::f32;    // of C: f32, or the operands' type
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;
  const void* a = nullptr;  // [m, k], columns of lda; transposed [k, m]
  std::int64_t lda = 0, stride_a = 0;
  const void* b = nullptr;  // [k, n], columns of ldb
  std::int64_t ldb = 0, stride_b = 0;
  float beta = 0.0f;
  void* c = nullptr;  // [m, n], columns of ldc
  std::int64_t ldc = 0, stride_c = 0;
  std::int64_t count = 1;
};

/// The cuBLAS library on one device. Safe to use from several threads.
class Cublas {
 public:
  /// Opens the library on first use and creates the device's handle; all users of a device share one. Looks for
  /// $LAMINA_CUBLAS, then libcublas.so.13, libcublas.so.12 and libcublas.so. Throws Error if none can be loaded.
  static std::shared_ptr<Cublas> on_device(int device);

  virtual ~Cublas() = default;

  /// Enqueues the products; allocates nothing. `workspace` is device memory, 256-byte aligned: results are
  /// repeatable because no two streams share it. fp32 means fp32 multiplications and additions; tf32 allows TF32 on f32
  /// operands. 16-bit operands are added up in fp32 whatever the precision.
  virtual void gemm(const GemmArguments& arguments, Precision precision, void* workspace, std::size_t workspace_bytes,
                    Stream stream) = 0;
};

}  // namespace lamina::cuda
