#include "lamina/cuda/conv2d.h"
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

}  // namespace

std::unique_ptr<Operator> prepare_conv2d_cuda(const ConvGeometry& geometry, const Preparation& preparation,
                                              const Tensor& weight, const Tensor& bias) {
  const cuda::Conv2dOptions options = {.device = preparation.device.index,
                                       .precision = preparation.precision,
                                       .algorithm = preparation.algorithm,
                                       .output = preparation.output,
                                       .relu = preparation.relu,
                                       .workspace_limit = preparation.workspace_limit};
  return std::make_unique<Conv2dCuda>(cuda::prepare_conv2d(geometry, options, weight.values<float>().data(),
                                                           bias.defined() ? bias.values<float>().data() : nullptr));
}

}  // namespace lamina::detail
