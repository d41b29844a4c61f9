#pragma once

#include <optional>

#include "support/kernel_harness.h"

/// What the tests of the textbook kernels share.
namespace lamina::test {

inline constexpr std::string_view textbook[] = {"direct", "direct_fixed", "direct_padded", "tiled", "im2col"};

/// One convolution's data and, once asked for, its reference.
struct Convolution {
  Convolution(const ConvGeometry& geometry, Values values, bool with_bias)
      : g(geometry), biased(with_bias), data(draw(g, values)) {}

  Prepared prepare(const KernelOptions& o) const { return test::prepare(g, o, data, biased); }

  /// What was computed with these options, against the contract.
  void expect(const std::vector<float>& y, const KernelOptions& o, const Operator& op) {
    if (!reference_) reference_ = reference_conv2d(g, data.x.data(), data.w.data(), biased ? data.b.data() : nullptr);
    expect_outputs(expected_outputs(g, o, *reference_), y,
                   describe(g, o) + (biased ? ", bias, " : ", ") + op.description());
  }
  void expect(const KernelOptions& o) {
    const Prepared kernel = prepare(o);
    expect(run(kernel, data.x), o, *kernel.op);
  }

  ConvGeometry g;
  bool biased;
  ConvData data;

 private:
  std::optional<ConvReference> reference_;
};

class CudaConv2d : public OnCuda {};

inline void check_all(const ConvGeometry& g, Values values, bool bias, bool relu) {
  Convolution convolution(g, values, bias);
  for (const std::string_view kernel : textbook) {
    convolution.expect({.kernel = kernel, .relu = relu});
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace lamina::test
