#include "lamina/cuda/conv2d/conv2d.h"

#include <algorithm>
#include <iterator>

#include "lamina/base/error.h"
#include "lamina/cuda/conv2d/channels_last/channels_last.h"
#include "lamina/cuda/conv2d/first_layer/first_layer.h"
#include "lamina/cuda/conv2d/implicit_gemm/implicit_gemm.h"
#include "lamina/cuda/conv2d/ladder/ladder.h"
#include "lamina/tensor/device_memory.h"

namespace lamina::cuda {
namespace {

using detail::fail;

bool plain_layouts(const Conv2dOptions& o) {
  return o.input_layout == Layout::nchw && o.output_layout == Layout::nchw && !o.pool;
}

bool general_supports(const ConvGeometry& geometry, const Conv2dOptions& options) {
  return plain_layouts(options) && implicit_gemm_supports(geometry, options);
}

std::unique_ptr<Conv2dKernel> make_general(const ConvGeometry& geometry, const Conv2dOptions& options,
                                           const float* weight, const float* bias) {
  return make_implicit_gemm(geometry, options, weight, bias);
}

std::unique_ptr<Conv2dKernel> make_nhwc(const ConvGeometry& geometry, const Conv2dOptions& options, const float* weight,
                                        const float* bias) {
  return make_nhwc_conv2d(geometry, options, weight, bias);
}

/// The tensor-core kernels behind `implicit_gemm`, fastest first.
constexpr struct {
  bool (*supports)(const ConvGeometry&, const Conv2dOptions&);
  std::unique_ptr<Conv2dKernel> (*make)(const ConvGeometry&, const Conv2dOptions&, const float*, const float*);
} tensor_core_kernels[] = {{implicit_gemm_sm90_supports, make_implicit_gemm_sm90},
                           {nhwc_conv2d_supports, make_nhwc},
                           {general_supports, make_general}};

bool wants_tensor_cores(const Conv2dOptions& options) {
  return options.algorithm == ConvAlgorithm::automatic || options.algorithm == ConvAlgorithm::implicit_gemm;
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
  // Plain f32 always has a kernel, or prepare_conv2d says why not.
  if (plain_layouts(options) && options.input == DType::f32 && options.output == DType::f32) return true;
  return wants_tensor_cores(options) &&
         std::any_of(std::begin(tensor_core_kernels), std::end(tensor_core_kernels),
                     [&](const auto& kernel) { return kernel.supports(geometry, options); });
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
  if (wants_tensor_cores(options)) {
    for (const auto& [supports, make] : tensor_core_kernels) {
      if (supports(geometry, options)) return make(geometry, options, weight, bias);
    }
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
