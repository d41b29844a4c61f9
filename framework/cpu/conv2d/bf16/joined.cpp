#include "lamina/cpu/conv2d/bf16/joined.h"

#include <algorithm>
#include <atomic>

#include "lamina/base/math.h"
#include "lamina/cpu/conv2d/bf16/engine.h"

namespace lamina::cpu::bf16 {

std::optional<ConvProblem> joined(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const int channels = g.group_in_channels();
  if (g.groups == 1 || channels != g.group_out_channels() || channels >= step_channels) return std::nullopt;
  if (step_channels % channels != 0 || g.in_channels % step_channels != 0) return std::nullopt;
  ConvProblem result = problem;
  result.geometry.groups = g.in_channels / step_channels;
  result.weight = Tensor::zeros({g.out_channels, step_channels, g.kernel_height, g.kernel_width});
  const std::int64_t filter = std::int64_t{channels} * g.kernel_height * g.kernel_width;
  const auto from = problem.weight.values<float>();
  const auto to = result.weight.values<float>();
  for (std::int64_t f = 0; f < g.out_channels; ++f) {
    const std::int64_t group = f % step_channels / channels;
    std::copy_n(from.begin() + f * filter, filter, to.begin() + (f * step_channels / channels + group) * filter);
  }
  return result;
}

bool all_finite(const Moves& moves, const bfloat16* input, std::int64_t pixels, std::int64_t channels,
                std::int64_t pitch, ThreadPool& pool) {
  const std::int64_t tasks = std::min<std::int64_t>(pixels, 4 * pool.threads());
  std::atomic<bool> result = true;
  pool.parallel_for(tasks, [&](std::int64_t task, int) {
    const std::int64_t first = pixels * task / tasks, count = pixels * (task + 1) / tasks - first;
    bool finite = true;
    if (pitch == channels) {
      finite = moves.finite(input + first * pitch, count * channels);
    } else {
      for (std::int64_t i = 0; i < count && finite; ++i) finite = moves.finite(input + (first + i) * pitch, channels);
    }
    if (!finite) result = false;
  });
  return result;
}

}  // namespace lamina::cpu::bf16
