#include "lamina/cuda/conv2d/first_layer/first_layer.h"

#include <cuda_runtime.h>

#include "lamina/base/error.h"
#include "lamina/cuda/conv2d/first_layer/instance.h"
#include "lamina/cuda/conv2d/first_layer/pack.h"
#include "lamina/cuda/conv2d/first_layer/plan.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/launch_attributes.h"

namespace lamina::cuda {
namespace {

first_layer::Limits limits(int device, const first_layer::Instance& instance) {
  cudaFuncAttributes kernel{};
  check(cudaFuncGetAttributes(&kernel, instance.function));
  first_layer::Limits limits;
  limits.multiprocessors = device_attribute(device, cudaDevAttrMultiProcessorCount);
  limits.shared_bytes =
      device_attribute(device, cudaDevAttrMaxSharedMemoryPerBlockOptin) - static_cast<int>(kernel.sharedSizeBytes);
  limits.computing_groups = instance.computing_groups;
  limits.raw_slots = instance.raw_slots;
  return limits;
}

class ImplicitGemmSm90 final : public Conv2dKernel {
 public:
  ImplicitGemmSm90(const ConvGeometry& geometry, const Conv2dOptions& options, const float* weight, const float* bias)
      : device_(options.device), precision_(options.precision) {
    const DeviceGuard guard(device_);
    const auto plan =
        first_layer::plan(geometry, options, limits(device_, first_layer::instance(precision_, options.output, 32)));
    if (!plan) lamina::detail::fail("implicit_gemm: a tile of this convolution does not fit the shared memory");
    plan_ = *plan;
    instance_ = first_layer::instance(precision_, options.output, plan_.filters);
    const first_layer::Packed packed =
        first_layer::pack(plan_, first_layer::order_steps(plan_.params), precision_, weight, bias);
    first_layer::Params& p = plan_.params;
    const auto upload = [&](Constant& buffer, const auto& values) {
      buffer = Constant(device_, values.data(), values.size() * sizeof(values[0]));
    };
    upload(weights_, packed.operands), p.weights = weights_.data();
    upload(scale_, packed.scale), p.scale = scale_.as<float>();
    upload(bias_, packed.bias), p.bias = bias_.as<float>();
    upload(exact_, packed.exact), p.exact_weights = exact_.as<float>();
    upload(inexact_, packed.inexact), p.inexact = inexact_.as<std::uint8_t>();
    p.tolerated = packed.tolerated;
    for (const std::uint8_t flag : packed.inexact) p.any_inexact |= flag != 0;
    check(cudaFuncSetAttribute(instance_.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               limits(device_, instance_).shared_bytes));
  }

  ConvAlgorithm algorithm() const override { return ConvAlgorithm::implicit_gemm; }

  std::string description() const override {
    const first_layer::Params& p = plan_.params;
    return lamina::detail::concat(
        "implicit_gemm (wgmma) ", first_layer::tile_pixels, " pixels x ", plan_.filters, " channels, ", p.steps,
        " k16 steps", plan_.split ? " x 3 products" : "", ", ring of ", p.ring_rows, " rows",
        p.strips > 1 ? " in strips" : "", p.pool_kernel != 0 ? ", pooled" : "", ", ", plan_.blocks, " blocks, ",
        (plan_.shared_bytes + 1023) / 1024, " KB shared memory", p.any_inexact ? ", some filters in plain fp32" : "");
  }

  std::size_t workspace_bytes() const override { return 0; }

  std::size_t parameter_bytes() const override {
    return weights_.bytes() + scale_.bytes() + bias_.bytes() + exact_.bytes() + inexact_.bytes();
  }

  void run(const void* input, void* output, void*, Stream stream) const override {
    const DeviceGuard guard(device_);
    first_layer::Params params = plan_.params;
    params.input = static_cast<const float*>(input);
    params.output = output;
    cudaLaunchAttribute attributes[] = {may_overlap(), mostly_shared_memory()};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(plan_.blocks));
    config.blockDim = dim3(static_cast<unsigned>(instance_.block_threads));
    config.dynamicSmemBytes = static_cast<std::size_t>(plan_.shared_bytes);
    config.stream = static_cast<cudaStream_t>(stream);
    config.attrs = attributes;
    config.numAttrs = 2;
    void* arguments[] = {&params};
    check(cudaLaunchKernelExC(&config, instance_.function, arguments));
  }

 private:
  int device_;
  Precision precision_;
  first_layer::Plan plan_;
  first_layer::Instance instance_;
  Constant weights_, scale_, bias_, exact_, inexact_;
};

bool output_allowed(const Conv2dOptions& o) {
  if (o.output == DType::f32) return true;
  return (o.precision == Precision::fp16 && o.output == DType::f16) ||
         (o.precision == Precision::bf16 && o.output == DType::bf16);
}

/// The kernels are empty where they were not compiled for sm_90a; only a real one has its barriers.
bool has_device_code(const first_layer::Instance& instance) {
  cudaFuncAttributes kernel{};
  if (cudaFuncGetAttributes(&kernel, instance.function) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return kernel.sharedSizeBytes > 0;
}

}  // namespace

bool implicit_gemm_sm90_supports(const ConvGeometry& geometry, const Conv2dOptions& options) {
  if (options.input != DType::f32 || options.input_layout != Layout::nchw) return false;
  if (!output_allowed(options) || !first_layer::expressible(geometry)) return false;
  if (options.pool && !first_layer::poolable(geometry, options)) return false;
  const DeviceGuard guard(options.device);
  if (device_attribute(options.device, cudaDevAttrComputeCapabilityMajor) != 9 ||
      device_attribute(options.device, cudaDevAttrComputeCapabilityMinor) != 0) {
    return false;
  }
  const first_layer::Instance instance = first_layer::instance(options.precision, options.output, 32);
  return has_device_code(instance) &&
         first_layer::plan(geometry, options, limits(options.device, instance)).has_value();
}

std::unique_ptr<Conv2dKernel> make_implicit_gemm_sm90(const ConvGeometry& geometry, const Conv2dOptions& options,
                                                      const float* weight, const float* bias) {
  return std::make_unique<ImplicitGemmSm90>(geometry, options, weight, bias);
}

}  // namespace lamina::cuda
