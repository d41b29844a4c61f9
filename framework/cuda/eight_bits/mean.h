#pragma once

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

namespace lamina::cuda {

/// The means of windows of codes, channels last, in codes or floats: fl(fl(fl(S - n zero) scale) / cells), S the sum of
/// a window's n codes, of which an image has few enough that it is a whole number of f32. Either side may be a slice.
void mean_of_codes(int device, PoolKind kind, const PoolGeometry& geometry, const View& view, const View& result,
                   const void* input, void* output, Stream stream);

}  // namespace lamina::cuda
