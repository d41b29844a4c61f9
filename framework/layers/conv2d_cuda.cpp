#include "lamina/cuda/conv2d/conv2d.h"
#include "lamina/layers/conv2d_operators.h"

namespace lamina::detail {
namespace {

class Conv2dCuda : public Operator {
 public:
  explicit Conv2dCuda(std::unique_ptr<cuda::Conv2dKernel> kernel) : kernel_(std::move(kernel)) {}

  std::string description() const override { return kernel_->description(); }
  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  std::size_t parameter_bytes() const override { return kernel_->parameter_bytes(); }

  void run(std::span<const Tensor> inputs, Tensor& output, const Execution& execution) const override {
    kernel_->run(inputs[0].raw(), output.raw(), execution.workspace, execution.stream);
  }

 private:
  std::unique_ptr<cuda::Conv2dKernel> kernel_;
};

cuda::Conv2dOptions options_from(const Preparation& preparation) {
  return {.device = preparation.device.index,
          .precision = preparation.precision,
          .algorithm = preparation.algorithm,
          .input = preparation.input.dtype,
          .output = preparation.output.dtype,
          .input_layout = preparation.input.layout,
          .output_layout = preparation.output.layout,
          .relu = preparation.relu,
          .pool = preparation.pool,
          .workspace_limit = preparation.workspace_limit};
}

}  // namespace

bool conv2d_cuda_takes(const ConvGeometry& geometry, const Preparation& preparation) {
  return cuda::conv2d_takes(geometry, options_from(preparation));
}

std::unique_ptr<Operator> prepare_conv2d_cuda(const ConvGeometry& geometry, const Preparation& preparation,
                                              const Tensor& weight, const Tensor& bias) {
  return std::make_unique<Conv2dCuda>(cuda::prepare_conv2d(geometry, options_from(preparation),
                                                           weight.values<float>().data(),
                                                           bias.defined() ? bias.values<float>().data() : nullptr));
}

}  // namespace lamina::detail
