#pragma once

#include "lamina/cuda/runtime/launched.h"
#include "lamina/kernel/problems.h"

/// Work on activations of f32, f16 or bf16. Arithmetic is in f32.
namespace lamina::cuda {

/// The cheap functions (elementwise.h) of operands that lie alike; array/array.h has the others.
Takes<PointwiseProblem> takes_pointwise;
Prepare<PointwiseProblem> prepare_pointwise;

Takes<AffineProblem> takes_affine;
Prepare<AffineProblem> prepare_affine;

/// Along a dimension that is not the innermost, sums are added up in an order that is good for a usual batch.
Prepare<SoftmaxProblem> prepare_softmax;

Prepare<LocalResponseProblem> prepare_local_response;

/// May turn the layout on its way.
Takes<PoolProblem> takes_pool;
Prepare<PoolProblem> prepare_pool;

}  // namespace lamina::cuda
