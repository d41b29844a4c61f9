#pragma once

#include <optional>

#include "lamina/cuda/nhwc_arguments.h"
#include "lamina/cuda/nhwc_conv2d.h"

/// Which tile, how many blocks share weights, how many share K: a rule, no trial runs.
namespace lamina::cuda::nhwc {

struct Choice {
  Tile tile;
  int multicast = 1, splits = 1, stages = 2;
  bool in_ring = false;  // where the sums of a split tile land
  int blocks = 0;        // of the launch: whole clusters

  int cluster() const { return multicast * splits; }
};

/// Terms of K in one step.
int step_terms(Precision precision);

/// Steps of K: slabs of channels times taps.
int step_count(const ConvGeometry& geometry, Precision precision);

std::vector<Tile> tiles(Precision precision);

/// Whether this build has code for the current device, which must be of compute capability 9.0.
bool has_code(Precision precision);

/// The fastest by estimate among those that `wanted` leaves; nothing if it leaves none. Precondition:
/// compiled(precision).
std::optional<Choice> choose(const ConvGeometry& geometry, const Conv2dOptions& options, const NhwcChoice& wanted);

}  // namespace lamina::cuda::nhwc
