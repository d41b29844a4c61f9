#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/bf16/engine.h"
#include "lamina/cpu/conv2d/bf16/moves.h"
#include "lamina/kernel/rules/lookup_extents.h"

namespace lamina::cpu::bf16 {

/// c = alpha * a b of bf16 around any engine: rows of a are positions, columns of b filters. b is packed for some
/// batches at a time, rows of a tile by tile. Sums are f32.
class MatMul {
 public:
  /// Numbers of b of one batch at most, for all of it is packed at once. There are terms: k > 0.
  static constexpr std::int64_t most_numbers = std::int64_t{16} << 20;

  MatMul(const Engine& engine, const detail::MatMulExtents& extents);

  std::size_t workspace(int threads) const;
  /// `workspace` is 64-byte aligned and workspace() bytes, of as many threads as the pool has at most.
  void operator()(const bfloat16* a,  // [batches, m, k], as the strides say
                  const bfloat16* b,  // [batches, k, n], as the strides say
                  bfloat16* c,        // [batches, m, n]
                  ThreadPool& pool, std::byte* workspace) const;

 private:
  std::int64_t packed_batch() const { return panels_ * panel_; }
  std::int64_t rows_bytes() const;
  std::int64_t worker_bytes() const;
  void pack(const bfloat16* b, std::int64_t panel, std::uint16_t* packed) const;
  void copy_rows(const bfloat16* a, std::int64_t count, std::byte* to) const;
  void multiply(const std::byte* rows, const std::uint16_t* panel, std::int64_t count, std::int64_t column, float* sums,
                bfloat16* c) const;

  const Engine* engine_;
  const Moves* moves_;
  detail::MatMulExtents e_;
  std::int64_t tile_;            // rows that there is memory for
  std::int64_t panels_, panel_;  // of Engine::filters columns, and numbers of one
  std::int64_t batches_;         // that are packed at a time
  std::vector<std::int64_t> offsets_;
};

}  // namespace lamina::cpu::bf16
