#pragma once

#include <memory>

#include "lamina/kernel/conv_sum.h"
#include "lamina/kernel/operator.h"

/// Convolution between channels-last activations by Hopper's TMA and tensor cores: the inner layers of a network.
/// docs/inside/channels_last.md explains it.
namespace lamina::cuda::channels_last {

/// A device with wgmma; input of the precision's storage type and output of it or f32, both nhwc; one group, or, in 16
/// bits, groups of whole 64 channels and filters; channels whose bytes are a multiple of 16 on both sides; strides up
/// to 8 and windows that reach less than 128 pixels beyond their corner; of pooling maxima of 2 x 2 pixels, two apart,
/// in 16 bits. Tuning: tile, multicast (1, 2 or 4), splits (1 to 8; more than one excludes multicast).
bool takes(const ConvProblem& problem, const Preparation& preparation);

/// Whether the kernels take a layer as it is, and not by the rows of its patches (kernel/rules/patches.h).
bool takes_windows(const ConvProblem& problem, const Preparation& preparation);

/// Of what it takes: whether a pooling within is expected to gain.
bool pays(const ConvProblem& problem, const Preparation& preparation);

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation);

/// Convolutions of codes, of one group: windows that TMA can read as they are, and any others as rows (eight_bits.h).
bool takes_codes(const ConvProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare_codes(const ConvProblem& problem, const Preparation& preparation);

/// Such a convolution and one of single pixels, in 16 bits.
bool takes_sum(const ConvSumProblem& problem, const Preparation& preparation);
bool pays_sum(const ConvSumProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare_sum(const ConvSumProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda::channels_last
