#pragma once

#include "lamina/cuda/finish.h"

namespace lamina::cuda {

/// Whether an epilogue is nothing, a clamp, SiLU, hard swish or a leaky ReLU: what kernels take that have no code for
/// more.
bool is_short(const Epilogue& epilogue, DType output);

}  // namespace lamina::cuda
