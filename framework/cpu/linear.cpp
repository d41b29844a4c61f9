#include "lamina/cpu/linear.h"

#include <algorithm>

#include "lamina/tensor/math.h"

namespace lamina::cpu {
namespace {

using detail::ceil_div;
using detail::round_up;

/// Bytes of weights in a task where they stream past once: some microseconds.
constexpr std::int64_t task_bytes = 256 << 10;
/// Rows and outputs of a task otherwise: a block of 1024 terms of the weights takes 400 KB of L2.
constexpr std::int64_t task_rows = 192;
constexpr std::int64_t task_outputs = 96;

}  // namespace

void linear(const LinearKernel& kernel, std::int64_t rows, std::int64_t in, std::int64_t out, const LinearPointers& p,
            ThreadPool& pool) {
  const auto run = p.weight_type == DType::f32 ? kernel.f32 : p.weight_type == DType::bf16 ? kernel.bf16 : kernel.f16;
  const bool streams = rows <= kernel.rows;
  const std::int64_t row_bytes = in * static_cast<std::int64_t>(size_of(p.weight_type));
  // Whole cache lines of outputs, and whole tiles.
  const std::int64_t step =
      streams ? round_up(std::clamp<std::int64_t>(task_bytes / row_bytes, 1, out), std::int64_t{24}) : task_outputs;
  const std::int64_t down = streams ? 1 : ceil_div(rows, task_rows);
  pool.parallel_for(ceil_div(out, step) * down, [&](std::int64_t task, int) {
    const std::int64_t row = task % down * task_rows;
    const std::int64_t first = task / down * step;
    run({.input = p.input + row * in,
         .weight = p.weight,
         .bias = p.bias,
         .output = p.output + row * out,
         .rows = streams ? rows : std::min(task_rows, rows - row),
         .in = in,
         .out = out,
         .first = first,
         .last = std::min(out, first + step),
         .relu = p.relu});
  });
}

}  // namespace lamina::cpu
