#pragma once

#include <optional>

#include "lamina/cuda/conv2d/mma/resident/arguments.h"
#include "lamina/cuda/tensor_core/packing.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/rules/eight_bits.h"

/// How the work is divided among blocks: a rule, no trial runs.
namespace lamina::cuda::mma::resident {

struct Choice {
  Tile tile;
  Arguments args;  // all that does not need memory
  std::int64_t blocks = 0;
  int shared_bytes = 0;
};

std::vector<Tile> tiles_of(Precision precision);

/// A 1x1 convolution without stride or padding is one of images of one row: all pixels of the batch.
ConvGeometry flattened(const ConvGeometry& geometry);

/// The fastest by estimate among those that the tuning leaves; nothing if a window does not fit into shared memory.
std::optional<Choice> choose(const ConvGeometry& geometry, const Preparation& preparation);

/// The weights as place_of says, of all bundles; ranges and, as Arguments has them, biases by bundle and filter.
struct Parameters {
  std::vector<unsigned char> weights;
  Packed biases;
  std::vector<FilterRange> ranges;
};
Parameters pack(const Arguments& args, Precision precision,
                const float* weight,                       // [OC, C / groups, KH, KW]
                const float* bias,                         // [OC] or null
                const lamina::detail::ChannelEnd* codes);  // or null

}  // namespace lamina::cuda::mma::resident
