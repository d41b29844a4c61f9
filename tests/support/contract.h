#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "support/conv_cases.h"
#include "support/reference.h"

namespace lamina::test {

/// Inputs, weights and bias of one convolution, drawn from a seed that the geometry decides.
struct ConvOperands {
  std::vector<float> input;   // [N, C, H, W]
  std::vector<float> weight;  // [OC, C / groups, KH, KW]
  std::vector<float> bias;    // [OC]

  ConvOperands(const ConvGeometry& g, Values values)
      : input(draw(g.input_size(), values, static_cast<unsigned>(g.output_size()))),
        weight(draw(g.weight_size(), values, static_cast<unsigned>(g.reduction()) + 1)),
        bias(draw(g.out_channels, values, 7)) {}
};

/// Expects every output within the contract of `truth`; reports the first that is not. NaN never passes.
inline void expect_contract(const ConvGeometry& g, Precision precision, const ConvReference& truth,
                            std::span<const float> output) {
  ASSERT_EQ(output.size(), truth.value.size());
  for (std::size_t i = 0; i < output.size(); ++i) {
    const double bound = error_bound(g, precision, truth.scale[i]);
    const bool holds = std::abs(static_cast<double>(output[i]) - truth.value[i]) <= bound;
    ASSERT_TRUE(holds) << describe(g) << ": output " << i << " is " << output[i] << ", expected " << truth.value[i]
                       << " within " << bound;
  }
}

}  // namespace lamina::test
