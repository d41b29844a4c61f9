#pragma once

#include <memory>

#include "lamina/cuda/conv2d/conv2d.h"

/// Convolution between channels-last activations on Hopper's TMA and tensor cores: the inner layers of a network.
/// docs/channels_last.md explains it.
namespace lamina::cuda {

/// For tests and benchmarks: what the rule would otherwise decide. Negative or zero leaves it to the rule.
struct NhwcChoice {
  int tile = -1;      ///< index into the precision's list of tiles
  int multicast = 0;  ///< blocks that share the copies of the weights: 1, 2 or 4
  int splits = 0;     ///< pieces of K, 1 to 8; more than one excludes multicast
};

/// Whether make_nhwc_conv2d takes this convolution: a device of compute capability 9.0 and a binary with sm_90a code;
/// input of the precision's storage type and output of it or f32, both nhwc; one group; channels
/// whose bytes are a multiple of 16 on both sides; strides up to 8 and windows that reach less than 128 pixels beyond
/// their corner; no pooling. Throws Error if the device cannot be asked.
bool nhwc_conv2d_supports(const ConvGeometry& geometry, const Conv2dOptions& options);

/// Packs and uploads the weights. Precondition: nhwc_conv2d_supports(geometry, options).
/// Throws Error if the device is out of memory.
std::unique_ptr<Conv2dKernel> make_nhwc_conv2d(const ConvGeometry& geometry, const Conv2dOptions& options,
                                               const float* weight,  // [OC, C, KH, KW], host
                                               const float* bias,    // [OC], host, or null
                                               const NhwcChoice& choice = {});

}  // namespace lamina::cuda
