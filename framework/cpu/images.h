#pragma once

#include <memory>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

namespace lamina::cpu {

/// output = input / (k + alpha / size * the sum of squares over `size` neighbouring channels) ^ beta, of f32 nchw.
std::unique_ptr<Operator> prepare_local_response(const LocalResponseProblem& problem, const Preparation& preparation);

/// Activations of f32, bf16 or codes. The output may be the input.
std::unique_ptr<Operator> prepare_affine(const AffineProblem& problem, const Preparation& preparation);

/// 8-bit pictures [images, pixels, 3] to f32 or bf16 in either layout, by table; bf16 is rounded once.
std::unique_ptr<Operator> prepare_normalization(const NormalizationProblem& problem, const Preparation& preparation);

}  // namespace lamina::cpu
