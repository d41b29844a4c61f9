#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/conv_cases.h"
#include "support/problem_data.h"
#include "support/run_problem.h"

/// Convolutions of codes, drawn.
namespace lamina::test {

enum class End { codes, float_bias, floats, halves, sums };

struct Made {
  ConvProblem problem;
  Tensor x;
  Shape output;
  DType type;
  RunOptions options;
};

inline Made make(const ConvCase& l, DType input, End end, bool weight_zeros = false) {
  Made made;
  const ConvGeometry& g = made.problem.geometry = geometry_of(l);
  EightBitWeights& eight = made.problem.eight;
  eight.weight = random_codes({g.out_channels, g.group_in_channels(), g.kernel_height, g.kernel_width}, DType::i8, 1);
  eight.scale = Tensor({l.out_channels});
  const float input_scale = 0.02f;
  int f = 0;
  for (float& scale : eight.scale.values<float>()) scale = 0.0013f + 0.0001f * static_cast<float>(f++ % 7);
  if (weight_zeros) {
    eight.zero_point = Tensor({l.out_channels}, DType::i32);
    for (std::int32_t& zero : eight.zero_point.values<std::int32_t>()) zero = f++ % 9 - 4;
  }
  if (end == End::float_bias || end == End::floats || end == End::halves) {
    made.problem.bias = Tensor({l.out_channels});
    for (float& b : made.problem.bias.values<float>()) b = 0.37f * static_cast<float>(f++ % 13 - 6);
  } else {
    eight.bias = Tensor({l.out_channels}, DType::i32), eight.bias_scale = Tensor({l.out_channels});
    for (int i = 0; i < l.out_channels; ++i) {
      eight.bias.values<std::int32_t>()[static_cast<std::size_t>(i)] = i * 911 % 40001 - 20000;
      eight.bias_scale.values<float>()[static_cast<std::size_t>(i)] =
          input_scale * eight.scale.values<float>()[static_cast<std::size_t>(i)];
    }
  }
  eight.whole = end == End::sums;
  if (!eight.whole) made.problem.epilogue.chain = {{Pointwise::relu}};
  made.x = random_codes({l.batch, l.in_channels, l.height, l.width}, input, 2);
  made.output = {l.batch, l.out_channels, g.out_height, g.out_width};
  made.type = end == End::sums     ? DType::i32
              : end == End::floats ? DType::f32
              : end == End::halves ? DType::bf16
                                   : input;
  // 0 is what surrounds an image that TMA reads.
  const std::int32_t zero = l.padding_height > 0 && l.height % 2 == 0 ? 0 : input == DType::u8 ? 119 : -11;
  made.options = {.inputs = {Layout::nhwc},
                  .output = eight.whole ? Layout::nchw : Layout::nhwc,
                  .quantizations = {{input_scale, zero}}};
  if (made.type == input) made.options.quantizations.push_back({0.3f, input == DType::u8 ? 9 : -20});
  return made;
}

}  // namespace lamina::test
