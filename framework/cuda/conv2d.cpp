#include "lamina/cuda/conv2d.h"

#include "lamina/cuda/conv2d_textbook.h"
#include "lamina/tensor/device_memory.h"
#include "lamina/tensor/error.h"

namespace lamina::cuda {
namespace {

using detail::fail;

/// The tensor-core kernels, fastest first; null if none takes this geometry and these options.
std::unique_ptr<Conv2dKernel> make_tensor_core_kernel(const ConvGeometry&, const Conv2dOptions&, const float*,
                                                      const float*) {
  return nullptr;
}

}  // namespace

std::unique_ptr<Conv2dKernel> prepare_conv2d(const ConvGeometry& geometry, const Conv2dOptions& options,
                                             const float* weight, const float* bias) {
  detail::require_cuda_device(options.device);
  switch (options.algorithm) {
    case ConvAlgorithm::automatic:
      if (auto kernel = make_tensor_core_kernel(geometry, options, weight, bias)) return kernel;
      [[fallthrough]];
    case ConvAlgorithm::direct: return make_direct(geometry, options, weight, bias);
    default: fail("conv2d: algorithm ", name(options.algorithm), " does not run on CUDA");
  }
}

}  // namespace lamina::cuda
