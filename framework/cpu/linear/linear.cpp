#include "lamina/cpu/linear/linear.h"

#include <algorithm>

#include "lamina/base/math.h"

namespace lamina::cpu {
namespace {

using detail::ceil_div;
using detail::round_up;

/// Bytes of weights in a task: some tens of microseconds.
constexpr std::int64_t task_bytes = 256 << 10;

}  // namespace

std::size_t linear_workspace(const LinearKernel& kernel, std::int64_t rows, std::int64_t in) {
  return static_cast<std::size_t>(rows * round_up<std::int64_t>(in, kernel.lanes)) * sizeof(float);
}

void linear(const LinearKernel& kernel, std::int64_t rows, std::int64_t in, std::int64_t out, const LinearPointers& p,
            ThreadPool& pool, float* workspace) {
  const std::int64_t packed_row = round_up<std::int64_t>(in, kernel.lanes);
  pool.parallel_for(ceil_div<std::int64_t>(rows, kernel.rows), [&](std::int64_t tile, int) {
    const std::int64_t row = tile * kernel.rows;
    kernel.pack(p.input + row * in, std::min<std::int64_t>(kernel.rows, rows - row), in, workspace + row * packed_row);
  });
  const auto run = p.weight_type == DType::f32 ? kernel.f32 : p.weight_type == DType::bf16 ? kernel.bf16 : kernel.f16;
  const std::int64_t row_bytes = in * static_cast<std::int64_t>(size_of(p.weight_type));
  // Whole tiles, whichever the instruction set.
  const std::int64_t step = round_up(std::clamp<std::int64_t>(task_bytes / row_bytes, 1, out), std::int64_t{24});
  const std::int64_t jobs = ceil_div(rows, LinearJob::most_rows);
  pool.parallel_for(ceil_div(out, step) * jobs, [&](std::int64_t task, int) {
    const std::int64_t row = task % jobs * LinearJob::most_rows;
    const std::int64_t first = task / jobs * step;
    run({.input = workspace + row * packed_row,
         .weight = p.weight,
         .bias = p.bias,
         .output = p.output + row * out,
         .rows = std::min(LinearJob::most_rows, rows - row),
         .in = in,
         .out = out,
         .first = first,
         .last = std::min(out, first + step),
         .relu = p.relu});
  });
}

}  // namespace lamina::cpu
