#pragma once

#include <memory>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

/// Fully connected layers over many rows: 1x1 convolutions of an image that has a pixel for each row, with weights
/// packed for them.
namespace lamina::cpu::linear_product {

/// The layer as the convolution of an image [1, in, 1, rows].
ConvProblem as_convolution(const LinearProblem& problem);

bool takes(const LinearProblem& problem, const Preparation& preparation);
/// Where each image has rows enough to use what is packed. The batch does not count: an image's bits would depend on
/// it.
bool pays(const LinearProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare(const LinearProblem& problem, const Preparation& preparation);

}  // namespace lamina::cpu::linear_product
