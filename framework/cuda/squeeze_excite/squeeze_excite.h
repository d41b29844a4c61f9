#pragma once

#include <memory>

#include "lamina/cuda/conv2d/eight_bits_ends.h"
#include "lamina/cuda/divider.h"
#include "lamina/cuda/eight_bits/rounding.h"
#include "lamina/cuda/finish.h"
#include "lamina/kernel/operator.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/squeeze_excite.h"

/// Squeeze and excitation of channels-last images of 16 bits, or of codes, or a response norm's factors, of 16 bits, in
/// one launch, a cluster of blocks to up to three images. Compute capability 9.0. See squeeze_excite.cu.
namespace lamina::cuda::squeeze_excite {

inline constexpr int threads = 512;
inline constexpr int log2_parts = 3;
inline constexpr int parts = 1 << log2_parts;  // of an image, each with its own sums
inline constexpr int pack = 8;                 // channels that are read at a time
inline constexpr int max_images = 3;           // of a cluster

/// One of the two layers as a block has it: `rows` of its results, each with weights of 16 bits for `terms` values, and
/// `lanes` threads that share a row. Rows are an odd number of 16 bytes apart, so that neighbours are in other banks.
/// Behind them biases of f32. Of codes weights are whole numbers of f16, and behind them are what each of the 256 codes
/// that sums become is for who reads it, in f32, what is added to sums, in i32, and their factors.
struct Layer {
  int rows = 0, terms = 0, lanes = 32;
  bool codes = false;
  Layer() = default;
  /// Of so many values in all, of clusters of so many blocks. However many those are, a row has as many lanes.
  Layer(int values, int blocks, int terms_, bool codes_)
      : rows((values + blocks - 1) / blocks), terms(terms_), codes(codes_) {
    while (lanes > 1 && lanes * ((values + parts - 1) / parts) > threads) lanes /= 2;
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
  int groups = 1;  // of threads, each with a pixel of a slice
  /// Blocks of a cluster, and slices of an image's channels, whose pixels the other parts divide: the more slices there
  /// are, the fewer sums the blocks read of each other. Powers of two: what each thread does before it reads is waited
  /// for, and a division takes as long as a load.
  int log2_blocks = log2_parts, log2_slices = 0;
  Divider slice, pack_of_slice;  // by a slice's channels and by its packs
  int blocks() const { return 1 << log2_blocks; }
  __host__ __device__ int slice_channels() const { return channels >> log2_slices; }
  __host__ __device__ int parts_of_block() const { return parts >> log2_blocks; }
};

/// Of f32 behind the parameters in shared memory, for each image. Factors that are the result are not kept.
struct Memory {
  int of_threads, sums, means, hidden, factors, count;
  __host__ __device__ Memory(const Arguments& args, Result result)
      : of_threads(0),
        sums(args.parts_of_block() * threads * pack),
        means(sums + args.parts_of_block() * args.slice_channels()),
        hidden(means + args.channels),
        factors(hidden + args.excite.units() * pack),
        count((factors + (result == Result::product ? args.channels : 0) + 3) / 4 * 4) {}
};

/// Bytes of shared memory of a block of a cluster that has so many images.
int shared_bytes(const Arguments& args, int images, Result result);

/// __global__ void(Arguments), of f16, bf16 or codes, of a cluster that has so many images, up to max_images.
const void* kernel(DType type, int images, Result result);

bool takes(const SqueezeExciteProblem& problem, const Preparation& preparation);
/// Whether the image is small enough for the few blocks that it gets.
bool pays(const SqueezeExciteProblem& problem, const Preparation& preparation);
/// Throws Error if memory runs out.
std::unique_ptr<Operator> prepare(const SqueezeExciteProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda::squeeze_excite
