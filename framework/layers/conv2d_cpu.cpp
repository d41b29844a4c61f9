#include "lamina/base/error.h"
#include "lamina/cpu/conv2d/blocked.h"
#include "lamina/cpu/conv2d/conv2d.h"
#include "lamina/layers/conv2d_operators.h"

namespace lamina::detail {
namespace {

class Conv2dCpu : public Operator {
 public:
  Conv2dCpu(const ConvGeometry& geometry, const Preparation& preparation, const Tensor& weight, const Tensor& bias)
      : geometry_(geometry),
        algorithm_(preparation.algorithm == ConvAlgorithm::automatic ? fastest(geometry) : preparation.algorithm),
        automatic_(preparation.algorithm == ConvAlgorithm::automatic),
        threads_(preparation.threads),
        relu_(preparation.relu),
        weight_(weight),
        bias_(bias) {
    if (preparation.precision != Precision::fp32) {
      fail("conv2d: the CPU computes in fp32; precision ", name(preparation.precision), " needs a CUDA device");
    }
    switch (algorithm_) {
      case ConvAlgorithm::direct: break;
      case ConvAlgorithm::im2col: workspace_ = cpu::conv2d_im2col_workspace(geometry, threads_); break;
      case ConvAlgorithm::eigen: workspace_ = cpu::conv2d_eigen_workspace(geometry, threads_); break;
      case ConvAlgorithm::blocked: prepare_blocked(weight, bias); break;
      default:
        fail("conv2d: the CPU has the algorithms direct, im2col, eigen and blocked; ", name(algorithm_), " needs CUDA");
    }
  }

  std::string description() const override {
    switch (algorithm_) {
      case ConvAlgorithm::direct: return "direct: plain loops, summed in double";
      case ConvAlgorithm::im2col: return "im2col: whole images unfolded, Eigen product";
      case ConvAlgorithm::blocked:
        return concat("blocked: ", kernel_->vectors * kernel_->lanes, " filters x ", kernel_->pixels,
                      " pixels in registers, ", cpu::name(kernel_->set));
      default:
        return concat("eigen: tiles of ", cpu::conv2d_eigen_tile(geometry_), " pixels, Eigen product",
                      automatic_ ? " (too few filters a group, or no FMA, for blocked)" : "");
    }
  }

  std::size_t workspace_bytes() const override { return workspace_; }
  std::size_t parameter_bytes() const override { return packed_.defined() ? packed_.bytes() : 0; }

  void run(std::span<const Tensor> inputs, Tensor& output, const Execution& execution) const override {
    const cpu::Conv2dPointers pointers = {.input = inputs[0].values<float>().data(),
                                          .weight = (packed_.defined() ? packed_ : weight_).values<float>().data(),
                                          .bias = bias_.defined() ? bias_.values<float>().data() : nullptr,
                                          .output = output.values<float>().data(),
                                          .relu = relu_};
    auto* workspace = static_cast<float*>(execution.workspace);
    switch (algorithm_) {
      case ConvAlgorithm::direct: return cpu::conv2d_direct(geometry_, pointers, *execution.pool);
      case ConvAlgorithm::im2col: return cpu::conv2d_im2col(geometry_, pointers, *execution.pool, workspace);
      case ConvAlgorithm::blocked:
        return cpu::conv2d_blocked(geometry_, *kernel_, pointers, *execution.pool, workspace);
      default: return cpu::conv2d_eigen(geometry_, pointers, *execution.pool, workspace);
    }
  }

 private:
  static ConvAlgorithm fastest(const ConvGeometry& geometry) {
    return cpu::conv2d_blocked_pays(geometry) ? ConvAlgorithm::blocked : ConvAlgorithm::eigen;
  }

  void prepare_blocked(const Tensor& weight, const Tensor& bias) {
    kernel_ = &cpu::blocked_kernels().front();
    packed_ = Tensor(Shape{cpu::conv2d_blocked_packed_size(geometry_, *kernel_)});
    cpu::conv2d_blocked_pack(geometry_, *kernel_, weight.values<float>().data(),
                             bias.defined() ? bias.values<float>().data() : nullptr, packed_.values<float>().data());
    workspace_ = cpu::conv2d_blocked_workspace(geometry_, *kernel_, threads_);
  }

  ConvGeometry geometry_;
  ConvAlgorithm algorithm_;
  bool automatic_;
  int threads_;
  bool relu_;
  Tensor weight_;  // shared with the module: several plans use one copy
  Tensor bias_;
  const cpu::BlockedKernel* kernel_ = nullptr;  // of `blocked`
  Tensor packed_;                               // weights and bias as it wants them
  std::size_t workspace_ = 0;
};

}  // namespace

bool conv2d_cpu_takes(const ConvGeometry&, const Preparation& preparation) {
  return preparation.input == Format{} && preparation.output == Format{} && !preparation.pool;
}

std::unique_ptr<Operator> prepare_conv2d_cpu(const ConvGeometry& geometry, const Preparation& preparation,
                                             const Tensor& weight, const Tensor& bias) {
  return std::make_unique<Conv2dCpu>(geometry, preparation, weight, bias);
}

}  // namespace lamina::detail
