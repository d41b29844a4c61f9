#include "lamina/layers/relu.h"

#include "lamina/cpu/elementwise.h"
#include "lamina/cuda/relu.h"
#include "lamina/kernel/make_operator.h"

namespace lamina {
namespace {

class ReluCpu : public Operator {
 public:
  std::string description() const override { return "elementwise"; }
  void run(std::span<const Tensor> inputs, Tensor& output, const Execution& execution) const override {
    cpu::relu(inputs[0].values<float>().data(), output.values<float>().data(), output.numel(), *execution.pool);
  }
};

class ReluCuda : public Operator {
 public:
  std::string description() const override { return "elementwise"; }
  void run(std::span<const Tensor> inputs, Tensor& output, const Execution& execution) const override {
    cuda::relu(output.device().index, output.dtype(), inputs[0].raw(), output.raw(), output.numel(), execution.stream);
  }
};

}  // namespace

Shape ReLU::output_shape(std::span<const Shape> inputs) const {
  if (inputs.size() != 1) detail::fail("relu: expected 1 input, got ", inputs.size());
  return inputs[0];
}

bool ReLU::takes(const Preparation& preparation) const { return detail::keeps_format(preparation); }

std::unique_ptr<Operator> ReLU::prepare(const Preparation& preparation) const {
  switch (preparation.device.type) {
    case DeviceType::cpu: return std::make_unique<ReluCpu>();
    case DeviceType::cuda: return std::make_unique<ReluCuda>();
  }
  detail::fail("relu: unknown device");
}

}  // namespace lamina
