#pragma once

#include <optional>

#include "lamina/cuda/conv2d/channels_last/arguments.h"
#include "lamina/kernel/preparation.h"

/// Which tile, how many blocks share weights, how many share K: a rule, no trial runs.
namespace lamina::cuda::channels_last {

inline constexpr std::int64_t max_pixels = std::int64_t{1} << 30;  // indices of pixels are ints

struct Choice {
  Tile tile;
  int multicast = 1, splits = 1, stages = 2;
  Halo halo = {};        // of a tile with teams
  bool in_ring = false;  // where the sums of a split tile land
  int log2_buffers = 1;  // Arguments::log2_buffers
  int blocks = 0;        // of the launch: whole clusters
  int images = 0;        // of one launch: scaled rows may have to be made part by part
  double cycles = 0;     // expected

  /// All of a choice that its bits depend on. Whatever the tile, its sums advance through K in the same steps, those of
  /// a split tile are added piece by piece, and what is summed again exactly is single outputs.
  bool adds_up_like(const Choice& other) const { return tile.operand == other.tile.operand && splits == other.splits; }

  int cluster() const { return multicast * splits; }
};

/// All tiles that compute in this precision. Those of scaled operands come last.
std::vector<Tile> tiles(Precision precision);

/// Bytes of the scaled rows of `images` images, and of their scales.
struct ScaledBytes {
  std::size_t rows = 0, scales = 0;
  std::size_t workspace() const { return workspace_alignment + rows + scales; }
  static constexpr std::size_t workspace_alignment = 128;
};
ScaledBytes scaled_bytes(const ConvGeometry& geometry, Operand operand, int images);

/// What a tile must be able to do besides.
struct Demands {
  bool scaled = true;     // its operand may be a scaled one
  bool longer = false;    // more than a clamp is done to its sums
  bool adds = false;      // Arguments::adds
  bool last = false;      // Finish::Addition::last
  bool pooled = false;    // Arguments::pooled
  bool sum = false;       // a second product
  bool codes = false;     // its operand is Operand::codes
  bool single = false;    // no warpgroup may share another's pixels
  int group_filters = 0;  // those of a tile are of one group of so many, if not 0
};

Demands demands_of(const Epilogue& epilogue, DType output);

/// For the rule: a layer of as many steps of K, as channels of single pixels.
inline ConvGeometry of_steps(ConvGeometry geometry, Operand operand, int steps) {
  geometry.kernel_height = geometry.kernel_width = 1;
  geometry.in_channels = steps * step_terms(operand);
  return geometry;
}

/// Whether sums go through store_chained: functions other than a clamp are inlined for 16 bits alone.
inline bool chained(const Finish& finish, DType output) {
  return finish.kind == Finish::Kind::chain || (finish.kind != Finish::Kind::clamp && size_of(output) > 2);
}

/// The fastest by estimate among those that the tuning leaves; nothing if it leaves none.
std::optional<Choice> choose(const ConvGeometry& geometry, const Preparation& preparation, const Demands& demands = {});

}  // namespace lamina::cuda::channels_last
