#pragma once

#include "lamina/cuda/runtime/launched.h"
#include "lamina/kernel/problems.h"

/// Work on codes (View::quantization).
namespace lamina::cuda {

/// Of codes to codes, one of 256 for each. The output may be the input.
Prepare<PointwiseProblem> prepare_table;

/// What networks have most: codes of floats, floats of codes, and sums and products of codes with as many others, or
/// with codes or f32 for each channel of an image, [N, 1, C] or [1, 1, C].
Takes<PointwiseProblem> takes_pointwise_of_codes;
Prepare<PointwiseProblem> prepare_pointwise_of_codes;

/// Of what codes stand for, channels last; the input may be a slice.
Takes<AffineProblem> takes_affine_of_codes;
Prepare<AffineProblem> prepare_affine_of_codes;

/// Channels last, fewer than 2^31 outputs; either side may be a slice. The largest are what they
/// were; a mean is fl(fl(fl(S - n zero) scale) / cells), S the sum of a window's n codes, which is a whole number of
/// f32, in codes or floats.
Takes<PoolProblem> takes_pool_of_codes;
Prepare<PoolProblem> prepare_pool_of_codes;

/// Codes to codes or floats, channels last, fewer than 2^31.
bool reads_codes(const Preparation& preparation);

}  // namespace lamina::cuda
