#pragma once

#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

/// Which family of convolutions is the faster one where several are right: the tables of conv2d.cpp name these rules as
/// a row's `pays`. All thresholds between families stand in preference.cpp, side by side.
namespace lamina::cpu::preference {

bool lanes(const ConvProblem& problem, const Preparation& preparation);
bool rows(const ConvProblem& problem, const Preparation& preparation);
bool bf16_tiles(const ConvProblem& problem, const Preparation& preparation);
bool pair(const ConvPairProblem& problem, const Preparation& preparation);
bool bf16_pair(const ConvPairProblem& problem, const Preparation& preparation);
bool pooled(const ConvProblem& problem, const Preparation& preparation);

}  // namespace lamina::cpu::preference
