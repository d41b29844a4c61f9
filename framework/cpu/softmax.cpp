#include "lamina/cpu/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lamina::cpu {

void softmax(const float* input, float* output, std::int64_t outer, std::int64_t extent, std::int64_t inner,
             ThreadPool& pool) {
  pool.parallel_for(outer * inner, [=](std::int64_t index, int) {
    const std::int64_t first = index / inner * extent * inner + index % inner;
    const float* x = input + first;
    float* y = output + first;
    float largest = -std::numeric_limits<float>::infinity();
    for (std::int64_t i = 0; i < extent; ++i) largest = std::max(largest, x[i * inner]);
    double sum = 0;  // a NaN among the inputs, or infinite ones alone, make it NaN, and so all outputs
    for (std::int64_t i = 0; i < extent; ++i) {
      y[i * inner] = std::exp(x[i * inner] - largest);
      sum += static_cast<double>(y[i * inner]);
    }
    for (std::int64_t i = 0; i < extent; ++i) {
      y[i * inner] = static_cast<float>(static_cast<double>(y[i * inner]) / sum);
    }
  });
}

}  // namespace lamina::cpu
