#pragma once

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/rules/lookup_extents.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cuda {

struct AttentionPointers {
  const void* q = nullptr;     // [N, H, L, D]
  const void* k = nullptr;     // [N, G, S, D]
  const void* v = nullptr;     // [N, G, S, E]
  const void* mask = nullptr;  // as the extents say, or null
  void* output = nullptr;      // [N, H, L, E]
};

/// softmax(scale * q k' + mask) v in the memory of CUDA device `device`, in fp32 multiply-adds; f32, f16 or bf16.
/// D and E are at most attention_max_depth.
void attention(int device, DType dtype, const detail::AttentionExtents& extents, const AttentionPointers& pointers,
               Stream stream);
inline constexpr std::int64_t attention_max_depth = 256;
/// Bytes of shared memory of a block.
int attention_shared_bytes(const detail::AttentionExtents& extents);

/// The same on tensor cores (mma.sync, sm_80), of f32 as three products of TF32: D and E at most
/// attention_mma_max_depth, S at most attention_mma_max_positions.
void attention_mma(int device, DType dtype, const detail::AttentionExtents& extents, const AttentionPointers& pointers,
                   Stream stream);
/// The same with the positions of 16 rows shared by a block's warps: for few rows. The order of its sums is its own.
/// Precondition: attention_has_chunks, and pointers to 16 bytes.
void attention_split(int device, DType dtype, const detail::AttentionExtents& extents,
                     const AttentionPointers& pointers, Stream stream);
int attention_split_shared_bytes(DType dtype, const detail::AttentionExtents& extents);
/// Whether every row begins on 16 bytes.
bool attention_has_chunks(DType dtype, const detail::AttentionExtents& extents);
inline constexpr std::int64_t attention_mma_max_depth = 128;
inline constexpr std::int64_t attention_mma_max_positions = std::int64_t{1} << 30;

}  // namespace lamina::cuda
