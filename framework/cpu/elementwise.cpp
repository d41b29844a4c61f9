#include "lamina/cpu/elementwise.h"

#include <algorithm>

#include "lamina/tensor/math.h"

namespace lamina::cpu {
namespace {

// Elements of one task: long enough to hide the hand-out, short enough to balance.
constexpr std::int64_t chunk = 16384;

}  // namespace

void relu(const float* input, float* output, std::int64_t count, ThreadPool& pool) {
  pool.parallel_for(detail::ceil_div(count, chunk), [=](std::int64_t task, int) {
    const std::int64_t end = std::min(count, (task + 1) * chunk);
    // Not std::max: it would turn NaN into 0 or keep it depending on the order of its arguments.
    for (std::int64_t i = task * chunk; i < end; ++i) output[i] = input[i] < 0.0f ? 0.0f : input[i];
  });
}

}  // namespace lamina::cpu
