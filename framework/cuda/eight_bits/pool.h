#pragma once

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

namespace lamina::cuda {

/// Pooling of codes, channels last, fewer than 2^31 outputs; either side may be a slice. The largest are what they
/// were; a mean is fl(fl(fl(S - n zero) scale) / cells), S the sum of a window's n codes, which is a whole number of
/// f32, in codes or floats.
void pool_of_codes(int device, PoolKind kind, const PoolGeometry& geometry, const View& view, const View& result,
                   const void* input, void* output, Stream stream);

}  // namespace lamina::cuda
