#include "lamina/kernel/rules/linear_as_convolution.h"

#include "lamina/kernel/kernel.h"

namespace lamina::detail {
namespace {

struct Searched : LinearAsConvolution {
  Searched(const LinearProblem& linear, const Preparation& p) : LinearAsConvolution(linear, p) {
    preparation.algorithm = {}, preparation.finding = nullptr;
  }
};

}  // namespace

bool takes_by_convolution(const LinearProblem& linear, const Preparation& p) {
  const Searched conv(linear, p);
  return find_kernel(conv.problem, conv.preparation) != nullptr;
}

std::unique_ptr<Operator> prepare_by_convolution(const LinearProblem& linear, const Preparation& p) {
  const Searched conv(linear, p);
  return choose(conv.problem, conv.preparation).prepare(conv.problem, conv.preparation);
}

}  // namespace lamina::detail
