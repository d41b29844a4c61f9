#pragma once

#include <memory>

#include "lamina/cuda/conv2d/eight_bits_ends.h"
#include "lamina/cuda/eight_bits/rounding.h"
#include "lamina/cuda/finish.h"
#include "lamina/kernel/operator.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/squeeze_excite.h"

/// Squeeze and excitation of channels-last images of 16 bits, or of codes, or a response norm's factors, of 16 bits, in
/// one launch, a cluster of blocks to an image. Compute capability 9.0. See squeeze_excite.cu.
namespace lamina::cuda::squeeze_excite {

inline constexpr int threads = 512;
inline constexpr int blocks = 8;      // of a cluster
inline constexpr int pack = 8;        // channels that are read at a time
inline constexpr int max_images = 3;  // of a cluster

/// One of the two layers as a block has it: `rows` of its results, each with weights of 16 bits for `terms` values, and
/// `lanes` threads that share a row. Rows are an odd number of 16 bytes apart, so that neighbours are in other banks.
/// Behind them biases of f32. Of codes weights are whole numbers of f16, and behind them are what each of the 256 codes
/// that sums become is for who reads it, in f32, what is added to sums, in i32, and their factors.
struct Layer {
  int rows = 0, terms = 0, lanes = 32;
  bool codes = false;
  Layer() = default;
  Layer(int rows_, int terms_, bool codes_) : rows(rows_), terms(terms_), codes(codes_) {
    while (lanes > 1 && lanes * rows > threads) lanes /= 2;
  }
  __host__ __device__ int units() const { return (terms + pack - 1) / pack; }  // of 16 bytes
  __host__ __device__ int pitch() const { return (units() | 1) * 16; }         // bytes
  __host__ __device__ int weight_bytes() const { return rows * pitch(); }
  __host__ __device__ int bytes() const {
    return weight_bytes() + ((codes ? 256 + 2 * rows : rows) * 4 + 15) / 16 * 16;
  }
  int lane_terms() const { return (units() + lanes - 1) / lanes * pack; }
};

/// Of an image of codes.
struct CodeArguments {
  Multiplier image;
  float scale = 0, zeros = 0;  // of the image; its zero point as it is read, of all pixels
  Rounding means;              // of zero point 0
  eight_bits::SumsEnd squeeze, excite;
};

/// The image times its factors, the factors, or those of a response norm.
enum class Result { product, factors, response };

struct Arguments {
  const void* input = nullptr;                // [N, H, W, C]
  const unsigned char* parameters = nullptr;  // of each block: the first layer's, the second's
  void* output = nullptr;                     // as the input, or [N, C]
  Finish squeeze_finish, excite_finish;
  CodeArguments codes;
  Layer squeeze, excite;        // of a block
  const float* norm = nullptr;  // [2, C] in place of the two: what the channels' roots are scaled and shifted by
  float eps = 0;
  std::int64_t images = 0;
  int pixels = 0, channels = 0, hidden = 0;
};

/// Of f32 behind the parameters in shared memory, for each image.
struct Memory {
  int parts, sums, means, hidden, factors, count;
  __host__ __device__ explicit Memory(const Arguments& args)
      : parts(0),
        sums(threads * pack),
        means(sums + args.channels),
        hidden(means + args.squeeze.units() * pack),
        factors(hidden + args.excite.units() * pack),
        count((factors + args.channels + 3) / 4 * 4) {}
};

/// Bytes of shared memory of a block of a cluster that has so many images.
int shared_bytes(const Arguments& args, int images);

/// __global__ void(Arguments), of f16, bf16 or codes, of a cluster that has so many images, up to max_images.
const void* kernel(DType type, int images, Result result);

bool takes(const SqueezeExciteProblem& problem, const Preparation& preparation);
/// Whether the image is small enough for the few blocks that it gets.
bool pays(const SqueezeExciteProblem& problem, const Preparation& preparation);
/// Throws Error if memory runs out.
std::unique_ptr<Operator> prepare(const SqueezeExciteProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda::squeeze_excite
