#include "lamina/cuda/conv2d.h"

#include "lamina/cuda/conv2d_textbook.h"
#include "lamina/cuda/implicit_gemm.h"
#include "lamina/cuda/implicit_gemm_sm90.h"
#include "lamina/cuda/nhwc_conv2d.h"
#include "lamina/tensor/device_memory.h"
#include "lamina/tensor/error.h"

namespace lamina::cuda {
namespace {

using detail::fail;

bool plain_layouts(const Conv2dOptions& o) {
  return o.input_layout == Layout::nchw && o.output_layout == Layout::nchw && !o.pool;
}

/// The tensor-core kernels, fastest first; null if none takes this geometry and these options.
std::unique_ptr<Conv2dKernel> make_tensor_core_kernel(const ConvGeometry& geometry, const Conv2dOptions& options,
                                                      const float* weight, const float* bias) {
  if (nhwc_conv2d_supports(geometry, options)) return make_nhwc_conv2d(geometry, options, weight, bias);
  if (implicit_gemm_sm90_supports(geometry, options)) return make_implicit_gemm_sm90(geometry, options, weight, bias);
  if (!plain_layouts(options)) return nullptr;
  if (implicit_gemm_supports(geometry, options)) return make_implicit_gemm(geometry, options, weight, bias);
  return nullptr;
}

/// The rule behind `automatic`: tensor cores if they take it (prepare_conv2d tries them first); TF32 otherwise means
/// im2col, the only other kernel that has it; fp32 means `tiled`, the fastest of the five by measurement
/// (docs/kernels.md), which itself falls back to `direct` where nothing fits shared memory.
ConvAlgorithm choose_textbook(const Conv2dOptions& options) {
  return options.precision == Precision::tf32 ? ConvAlgorithm::im2col : ConvAlgorithm::tiled;
}

/// The five compute on f32 tensors, in fp32 or, where cuBLAS does the work, TF32.
void require_textbook(ConvAlgorithm algorithm, const Conv2dOptions& options) {
  const bool known_precision = options.precision == Precision::fp32 ||
                               (options.precision == Precision::tf32 && algorithm == ConvAlgorithm::im2col);
  if (!known_precision) {
    fail("conv2d: algorithm ", name(algorithm), " on CUDA does not compute in ", name(options.precision),
         " (fp32: all; tf32: im2col, implicit_gemm; fp16, bf16: implicit_gemm)");
  }
  if (options.input != DType::f32 || options.output != DType::f32) {
    fail("conv2d: algorithm ", name(algorithm), " on CUDA takes and gives f32, asked for ", options.input, " to ",
         options.output);
  }
}

}  // namespace

bool conv2d_takes(const ConvGeometry& geometry, const Conv2dOptions& options) {
  const bool automatic =
      options.algorithm == ConvAlgorithm::automatic || options.algorithm == ConvAlgorithm::implicit_gemm;
  if (automatic && (nhwc_conv2d_supports(geometry, options) || implicit_gemm_sm90_supports(geometry, options))) {
    return true;
  }
  if (!plain_layouts(options)) return false;
  if (options.input == DType::f32 && options.output == DType::f32) return true;  // or prepare_conv2d says why not
  return automatic && implicit_gemm_supports(geometry, options);
}

std::unique_ptr<Conv2dKernel> prepare_conv2d(const ConvGeometry& geometry, const Conv2dOptions& options,
                                             const float* weight, const float* bias) {
  detail::require_cuda_device(options.device);
  if (!conv2d_takes(geometry, options)) {
    fail("conv2d: no kernel on CUDA takes ", Format{options.input, options.input_layout}, " and gives ",
         Format{options.output, options.output_layout}, options.pool ? ", pooled," : "", " in ",
         name(options.precision), " with algorithm ", name(options.algorithm));
  }
  ConvAlgorithm algorithm = options.algorithm;
  if (algorithm == ConvAlgorithm::automatic || algorithm == ConvAlgorithm::implicit_gemm) {
    if (auto kernel = make_tensor_core_kernel(geometry, options, weight, bias)) return kernel;
    if (algorithm == ConvAlgorithm::implicit_gemm) {
      fail("conv2d: implicit_gemm has no ", name(options.precision),
           " kernel for this geometry and device; auto has one ", "in fp32");
    }
    algorithm = choose_textbook(options);
  }
  if (algorithm == ConvAlgorithm::eigen || algorithm == ConvAlgorithm::blocked) {
    fail("conv2d: algorithm ", name(algorithm),
         " runs on the CPU; on CUDA choose auto, direct, direct_fixed, direct_padded, tiled, ",
         "im2col or implicit_gemm");
  }
  require_textbook(algorithm, options);
  switch (algorithm) {
    case ConvAlgorithm::direct: return make_direct(geometry, options, weight, bias);
    case ConvAlgorithm::direct_fixed: return make_direct_fixed(geometry, options, weight, bias);
    case ConvAlgorithm::direct_padded: return make_direct_padded(geometry, options, weight, bias);
    case ConvAlgorithm::tiled: return make_tiled(geometry, options, weight, bias);
    case ConvAlgorithm::im2col: return make_im2col(geometry, options, weight, bias);
    default: fail("conv2d: unknown algorithm");
  }
}

}  // namespace lamina::cuda
