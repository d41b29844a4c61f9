#pragma once

#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/operator.h"

namespace lamina::cpu::bf16 {

/// A convolution and the depthwise one behind it, or the max pooling of its epilogue, some rows at a time, between
/// which what the first gives stays in the L2 cache. The results are those of one after the other, bit for bit. Taken
/// where all of it would not stay there: tasks compute the rows anew that windows of neighbouring tasks share.
bool takes_pair(const ConvPairProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare_pair(const ConvPairProblem& problem, const Preparation& preparation);

bool takes_pooled(const ConvProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare_pooled(const ConvProblem& problem, const Preparation& preparation);

}  // namespace lamina::cpu::bf16
