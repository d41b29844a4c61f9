#pragma once

#include <cstddef>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/bf16/engine.h"
#include "lamina/cpu/conv2d/bf16/moves.h"
#include "lamina/cpu/product/attention_rows.h"
#include "lamina/kernel/rules/lookup_extents.h"

/// softmax(scale * q k' + mask) v of bf16 around any of the engines that multiply it: keys are the filters of the first
/// product and columns of values those of the second, packed once for each image and head. Scores, softmax and sums are
/// f32; weights are rounded to bf16 where the engine reads that.
namespace lamina::cpu::bf16 {

struct AttentionKernel {
  const Engine* engine;
  const Moves* moves;
  const AttentionRows* rows;
};
AttentionKernel attention_kernel(const Engine& engine);

/// The longest rows of queries and keys.
inline constexpr int most_attention_depth = 1024;

struct AttentionPointers {
  const bfloat16* q = nullptr;     // [N, H, L, D]
  const bfloat16* k = nullptr;     // [N, G, S, D]
  const bfloat16* v = nullptr;     // [N, G, S, E]
  const bfloat16* mask = nullptr;  // as the extents say, or null
  bfloat16* output = nullptr;      // [N, H, L, E]
};

/// Rows are where the extents say, all queries of a group as far apart; D is 1 to most_attention_depth. Allocates
/// nothing; `workspace` is 64-byte aligned and attention_workspace() bytes, of as many threads as the pool has at most.
void attention(const AttentionKernel& kernel, const detail::AttentionExtents& extents,
               const AttentionPointers& pointers, ThreadPool& pool, std::byte* workspace);
std::size_t attention_workspace(const AttentionKernel& kernel, const detail::AttentionExtents& extents, int threads);

}  // namespace lamina::cpu::bf16
