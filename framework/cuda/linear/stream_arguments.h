#pragma once

#include <cstdint>
#include <vector>

#include "lamina/cuda/tensor_core/operand_rows.h"
#include "lamina/cuda/tensor_core/split_k.h"
#include "lamina/tensor/dtype.h"

/// What the host and the device code of linear_stream agree on.
namespace lamina::cuda::linear_stream {

inline constexpr int block_outputs = 64;                        // packed weights come in blocks of 64 outputs
inline constexpr int block_bytes = block_outputs * step_bytes;  // per step of K
inline constexpr int max_stages = 26;

struct Arguments {
  const void* input = nullptr;   // [rows, in]
  const void* weight = nullptr;  // [steps, blocks of 64 outputs, 64 rows of 128 bytes, swizzled]
  const float* bias = nullptr;   // [blocks * 64], zeros where there is none
  void* output = nullptr;        // [rows, out]
  DType output_type = DType::f32;
  bool relu = false;
  int rows = 0, in = 0, out = 0;
  int blocks = 0;  // of 64 outputs, whole tiles
  int steps = 0;   // of K, 128 bytes of every row
  int stages = 0;  // of the ring in shared memory
  int splits = 1;  // blocks of a cluster that share one tile, each with a piece of K
};

/// One compiled tile: outputs x rows.
struct Tile {
  int outputs = 0, rows = 0;
  int threads = 0;
  int stage_bytes = 0;           // of the ring
  int fragments = 0;             // of the tile's sums: what one block of a cluster finishes is a number of them
  int fragment_bytes = 0;        // as one block sends it
  int teams = 1;                 // that take the steps in turn: divides the ring's stages
  int resident = 1;              // blocks on a multiprocessor
  bool swizzled = false;         // the input in shared memory
  const void* kernel = nullptr;  // __global__ void(Arguments, CUtensorMap input)

  int shared_bytes(int stages, int splits) const {
    return stages * stage_bytes + splits * fragments_owned(fragments, splits) * fragment_bytes +
           (2 * max_stages + 1) * static_cast<int>(sizeof(std::uint64_t));
  }
};

/// Every tile of one operand type.
std::vector<Tile> tiles_fp16();
std::vector<Tile> tiles_bf16();
std::vector<Tile> tiles_tf32();
std::vector<Tile> tiles_fp32();

}  // namespace lamina::cuda::linear_stream
