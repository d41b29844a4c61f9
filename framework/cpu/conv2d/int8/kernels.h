#pragma once

#include <memory>

#include "lamina/cpu/conv2d/bf16/engine.h"
#include "lamina/kernel/operator.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

/// The rows of the table of convolutions that multiply in eight bits, channels last. The products are exact, so that
/// all have the same bits.
namespace lamina::cpu::int8 {

using bf16::Unit;

bool takes(Unit unit, const ConvProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare(Unit unit, const ConvProblem& problem, const Preparation& preparation);

/// By that engine, whichever the description would have.
std::unique_ptr<Operator> prepare_with(const ConvProblem& problem, const Preparation& preparation,
                                       const bf16::Engine& engine);

/// Plain loops, any geometry.
bool takes_direct(const ConvProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare_direct(const ConvProblem& problem, const Preparation& preparation);

}  // namespace lamina::cpu::int8
