#pragma once

#include <memory>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/operator.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

/// Convolutions of codes: the same bits as on a CPU, because the products are exact.
namespace lamina::cuda::eight_bits {

/// Plain loops on any device and for any geometry, images channels last; four products at a time where channels lie so.
bool takes_direct(const ConvProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare_direct(const ConvProblem& problem, const Preparation& preparation);

/// Bytes of a row of `unfold`: those of a window, up to a multiple of 16.
std::int64_t row_bytes(const ConvGeometry& geometry);

/// Windows as rows [N * OH * OW, row_bytes], the pixels of each side by side; `padding` around the image and behind the
/// window.
void unfold(const ConvGeometry& geometry, const void* input, std::int64_t pitch, std::uint8_t padding, void* rows,
            Stream stream);

}  // namespace lamina::cuda::eight_bits
