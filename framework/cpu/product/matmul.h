#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/bf16/engine.h"
#include "lamina/cpu/conv2d/bf16/moves.h"
#include "lamina/kernel/rules/lookup/lookup_extents.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cpu {

/// c = alpha * a b of f32 or bf16, around any engine of it: rows of a are positions, columns of b filters. b is packed
/// for some batches at a time, or some columns of one, rows of a some tiles at a time. Sums are f32.
template <class T>
class MatMul {
 public:
  MatMul(const bf16::Engine& engine, const detail::MatMulExtents& extents);

  std::size_t workspace(int threads) const;
  /// `workspace` is 64-byte aligned and workspace() bytes, of as many threads as the pool has at most.
  void operator()(const T* a,  // [batches, m, k], as the strides say
                  const T* b,  // [batches, k, n], as the strides say
                  T* c,        // [batches, m, n]
                  ThreadPool& pool, std::byte* workspace) const;

 private:
  std::int64_t packed_bytes() const;
  std::int64_t rows_bytes() const;
  std::int64_t in_order_bytes() const;
  std::int64_t sums_bytes() const;
  std::int64_t worker_bytes() const { return row_tiles_ * rows_bytes() + in_order_bytes() + sums_bytes(); }
  void pack(const T* b, std::int64_t panel, T* packed) const;
  void copy_rows(const T* a, std::int64_t count, std::byte* to, T* in_order) const;
  bool is_direct(std::int64_t panel) const { return direct_ && (panel + 1) * engine_->filters <= e_.n; }
  void multiply(bf16::Tile tile, std::int64_t count, std::int64_t column, T* c) const;

  const bf16::Engine* engine_;
  const bf16::Moves* moves_;
  detail::MatMulExtents e_;
  std::int64_t tile_;               // rows that there is memory for
  bool direct_;                     // whole panels of f32 are read where they are, not packed
  bool shared_;                     // all batches have one b
  std::int64_t panels_, panel_;     // of Engine::filters columns, and numbers of one
  std::int64_t batches_, columns_;  // batches, and panels of each, that are packed at a time
  std::int64_t row_tiles_;          // that a task copies
  std::vector<std::int64_t> offsets_;
};

/// The same of whole numbers, which wrap, and f64 by plain loops.
void matmul_loops(DType dtype, const detail::MatMulExtents& extents, const void* a, const void* b, void* c,
                  ThreadPool& pool);
/// Whether it knows the dtype.
bool matmul_loops_know(DType dtype);

}  // namespace lamina::cpu
