#include "lamina/cuda/check.h"
#include "lamina/cuda/conv2d_kernels.h"
#include "lamina/cuda/conv2d_textbook.h"

namespace lamina::cuda {
namespace {

class Direct final : public Conv2dKernel {
 public:
  Direct(const ConvGeometry& geometry, const Conv2dOptions& options, const float* weight, const float* bias)
      : geometry_(geometry), options_(options), parameters_(geometry, options.device, weight, bias) {}

  ConvAlgorithm algorithm() const override { return ConvAlgorithm::direct; }
  std::string description() const override { return "direct: one thread per output"; }
  std::size_t workspace_bytes() const override { return 0; }
  std::size_t parameter_bytes() const override { return parameters_.bytes(); }

  void run(const void* input, void* output, void*, Stream stream) const override {
    const DeviceGuard guard(options_.device);
    conv2d_direct(geometry_,
                  {.input = static_cast<const float*>(input),
                   .weight = parameters_.weight.as<float>(),
                   .bias = parameters_.bias.as<float>(),
                   .output = static_cast<float*>(output),
                   .relu = options_.relu},
                  stream);
  }

 private:
  ConvGeometry geometry_;
  Conv2dOptions options_;
  Conv2dParameters parameters_;
};

}  // namespace

Conv2dParameters::Conv2dParameters(const ConvGeometry& geometry, int device, const float* host_weight,
                                   const float* host_bias)
    : weight(device, host_weight, static_cast<std::size_t>(geometry.weight_size()) * sizeof(float)) {
  if (host_bias != nullptr) {
    bias = Buffer(device, host_bias, static_cast<std::size_t>(geometry.out_channels) * sizeof(float));
  }
}

std::unique_ptr<Conv2dKernel> make_direct(const ConvGeometry& geometry, const Conv2dOptions& options,
                                          const float* weight, const float* bias) {
  return std::make_unique<Direct>(geometry, options, weight, bias);
}

}  // namespace lamina::cuda
