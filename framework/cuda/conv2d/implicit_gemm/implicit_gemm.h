#pragma once

#include <memory>

#include "lamina/cuda/conv2d/conv2d.h"

/// Convolution on tensor cores for any geometry: a matrix product that gathers its second operand as it goes
/// (mma.sync and cp.async on compute capability 8.0 and up, wgmma on 9.0). docs/implicit_gemm.md explains it.
namespace lamina::cuda {

/// For tests and benchmarks: what the rule would otherwise decide. Negative or zero leaves it to the rule.
struct ImplicitGemmChoice {
  int tile = -1;   ///< index into the precision's list of tiles
  int splits = 0;  ///< pieces of K that are summed apart and added up in order
};

/// Whether make_implicit_gemm takes this convolution: a device of compute capability 8.0, types that go with the
/// precision, a kernel of at most 127 on each axis, and one image, rearranged, within the workspace limit.
/// Throws Error if the device cannot be asked.
bool implicit_gemm_supports(const ConvGeometry& geometry, const Conv2dOptions& options);

/// Packs and uploads the weights. `weight` [OC, C / groups, KH, KW] and `bias` [OC] (or null) are f32 in host memory.
/// Precondition: implicit_gemm_supports(geometry, options). Throws Error if the device is out of memory.
std::unique_ptr<Conv2dKernel> make_implicit_gemm(const ConvGeometry& geometry, const Conv2dOptions& options,
                                                 const float* weight, const float* bias,
                                                 const ImplicitGemmChoice& choice = {});

}  // namespace lamina::cuda
