#pragma once

#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/operator.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cpu {

/// A convolution and the depthwise one behind it, or the max pooling of its epilogue, some rows at a time, between
/// which what the first gives stays in the L2 cache. The results are those of one after the other, bit for bit: tasks
/// compute the rows anew that windows of neighbouring tasks share. Of bf16, or of f32 a 1x1 convolution and a depthwise
/// one.
bool takes_pair(DType type, const ConvPairProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare_pair(DType type, const ConvPairProblem& problem, const Preparation& preparation);

/// Of bf16.
bool takes_pooled(const ConvProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare_pooled(const ConvProblem& problem, const Preparation& preparation);

}  // namespace lamina::cpu
