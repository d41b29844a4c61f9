#pragma once

#include "lamina/kernel/bottleneck.h"
#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

/// Which family of convolutions is the faster one where several are right: all thresholds between them stand in
/// preference.cpp, side by side. The tables of conv2d.cpp name these rules as a row's `pays`; where a rule needs what
/// the family expects of its own choice of a tile, the family's `pays` works that out and asks here.
namespace lamina::cuda::preference {

bool stem(const ConvProblem& problem, const Preparation& preparation);
bool narrow(const ConvProblem& problem, const Preparation& preparation);
bool mma(const ConvProblem& problem, const Preparation& preparation);
bool int8_mma(const ConvProblem& problem, const Preparation& preparation);
bool planes(const ConvProblem& problem, const Preparation& preparation);
bool implicit_gemm(const ConvProblem& problem, const Preparation& preparation);

/// What a layer of channels_last is expected to take with its pooling in the same launch, and without, in clock cycles.
struct PooledCycles {
  double with = 0, without = 0;
};
bool pooled(const ConvProblem& problem, const PooledCycles& expected);

/// What a launch for both maps is expected to take, and what one for each does, in clock cycles.
struct BottleneckCycles {
  double both = 0, wide = 0, narrow = 0;
};
bool bottleneck(const BottleneckProblem& problem, const BottleneckCycles& expected);

/// `cycles`: what a launch for both is expected to take.
bool pair(const ConvPairProblem& problem, double cycles);

}  // namespace lamina::cuda::preference
