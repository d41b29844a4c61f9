#pragma once

#include "lamina/kernel/pointwise.h"

namespace lamina::test {

/// What follows a convolution in networks: functions of one value, and sums with an operand before and behind them.
inline const PointwiseChain chains[] = {{{.function = Pointwise::silu}},
                                        {{.function = Pointwise::hard_swish}},
                                        {{.function = Pointwise::clip, .a = 0, .b = 6}},
                                        {{.function = Pointwise::add, .operand = 1}, {.function = Pointwise::relu}},
                                        {{.function = Pointwise::gelu}},
                                        {{.function = Pointwise::sigmoid}, {.function = Pointwise::add, .operand = 1}}};

}  // namespace lamina::test
