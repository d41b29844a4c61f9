#pragma once

#include <cstddef>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/bf16/engine.h"
#include "lamina/cpu/conv2d/bf16/moves.h"
#include "lamina/cpu/product/attention_rows.h"
#include "lamina/kernel/rules/lookup/lookup_extents.h"

/// softmax(scale * q k' + mask) v of f32 or bf16 around any of the engines that multiply it: keys are the filters of
/// the first product and columns of values those of the second, packed once for each image and head. Scores, softmax
/// and sums are f32; weights are rounded to bf16 where the engine reads that. A softmax never has a whole row: Milakov,
/// Gimelshein, "Online normalizer calculation for softmax", 2018.
namespace lamina::cpu {

struct AttentionKernel {
  const bf16::Engine* engine;
  const bf16::Moves* moves;
  const AttentionRows* rows;
};
AttentionKernel attention_kernel(const bf16::Engine& engine);

template <class T>
struct AttentionPointers {
  const T* q = nullptr;     // [N, H, L, D]
  const T* k = nullptr;     // [N, G, S, D]
  const T* v = nullptr;     // [N, G, S, E]
  const T* mask = nullptr;  // as the extents say, or null
  T* output = nullptr;      // [N, H, L, E]
};

/// Rows are where the extents say, all queries of a group as far apart. Allocates nothing; `workspace` is 64-byte
/// aligned and attention_workspace() bytes, of as many threads as the pool has at most.
template <class T>
void attention(const AttentionKernel& kernel, const detail::AttentionExtents& extents,
               const AttentionPointers<T>& pointers, ThreadPool& pool, std::byte* workspace);
std::size_t attention_workspace(const AttentionKernel& kernel, const detail::AttentionExtents& extents, int threads);

}  // namespace lamina::cpu
