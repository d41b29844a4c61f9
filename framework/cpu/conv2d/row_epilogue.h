#pragma once

#include <limits>

#include "lamina/cpu/array/pointwise.h"
#include "lamina/kernel/epilogue.h"

/// The epilogue of a convolution that writes channels last: rows of [pixels, channels].
namespace lamina::cpu {

/// A chain in the order in which it is computed: an addition and a clamp in registers, what follows on rows that were
/// just written.
struct RowEpilogue {
  bool adds = false;  ///< the residual, first of all
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();  ///< NaN stays
  PointwiseChain rest = {};                                 ///< its additions are of the residual
  const ApplyKernel* functions = &apply_kernels().front();  ///< that compute the rest

  bool clamps() const { return low > -std::numeric_limits<float>::infinity() || high < -low; }
};

/// Of an epilogue that is_residual(), on that device.
RowEpilogue row_epilogue(const Epilogue& epilogue, const DeviceDescription& device);

/// Applies the rest to `count` elements in place; `residual`: at the same place.
void apply_rest(const RowEpilogue& epilogue, const float* residual, float* values, std::int64_t count);

}  // namespace lamina::cpu
