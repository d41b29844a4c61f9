#pragma once

#include <memory>

#include "lamina/cuda/finish.h"
#include "lamina/kernel/operator.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/squeeze_excite.h"

/// Squeeze and excitation of channels-last images of 16 bits in one launch, a cluster of blocks to an image. Compute
/// capability 9.0. See squeeze_excite.cu.
namespace lamina::cuda::squeeze_excite {

inline constexpr int threads = 512, warps = threads / 32;
inline constexpr int blocks = 8;  // of a cluster
inline constexpr int pack = 8;    // channels that are read at a time

/// Where a block's parameters lie, which are of `rows` hidden values and of `outs` factors: weights of 16 bits
/// [rows, channels] and [hidden, outs], then f32 biases [rows] and [outs].
struct ParametersOf {
  int second, bias, second_bias, bytes;
  __host__ __device__ ParametersOf(int channels, int hidden, int rows, int outs)
      : second(rows * channels * 2),
        bias((second + hidden * outs * 2 + 15) / 16 * 16),
        second_bias(bias + rows * 4),
        bytes((second_bias + outs * 4 + 15) / 16 * 16) {}
};

struct Arguments {
  const void* input = nullptr;                // [N, H, W, C]
  const unsigned char* parameters = nullptr;  // of each block
  void* output = nullptr;                     // as the input
  Finish squeeze, excite;
  int pixels = 0, channels = 0, hidden = 0;
  int rows = 0, outs = 0;  // of a block, of the hidden values and of the channels
};

/// Bytes of shared memory of a block.
int shared_bytes(const Arguments& args);

/// __global__ void(Arguments), of f16 or bf16.
const void* kernel(DType type);

bool takes(const SqueezeExciteProblem& problem, const Preparation& preparation);
/// Throws Error if memory runs out.
std::unique_ptr<Operator> prepare(const SqueezeExciteProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda::squeeze_excite
