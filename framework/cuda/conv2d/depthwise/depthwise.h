#pragma once

#include <memory>

#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

/// Conv2d with a filter for each channel, between channels-last activations of the precision's storage type, any
/// geometry, sums in f32; in 16 bits also behind a 1x1 convolution, as mobile networks' blocks begin: what lies between
/// the two stays in shared memory (compute capability 8.0 and up). See kernel.cuh and docs/inside/grouped.md.
namespace lamina::cuda::depthwise {

bool takes(const ConvProblem& problem, const Preparation& preparation);
bool takes_pair(const ConvPairProblem& problem, const Preparation& preparation);
/// Whether it is expected to take less time than one after the other.
bool pays_pair(const ConvPairProblem& problem, const Preparation& preparation);
/// Throw Error if memory runs out.
std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare_pair(const ConvPairProblem& problem, const Preparation& preparation);

/// The same of codes: an odd square kernel of up to 7, channels a multiple of 4.
bool takes_codes(const ConvProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare_codes(const ConvProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda::depthwise
