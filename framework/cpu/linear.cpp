// Fully connected layers. One row costs as much as reading its weights from memory: dot products, four at once so
// that several streams are in flight. A few rows share every weight that arrives; for many rows Eigen's product,
// which packs the weights, pays.

// Eigen packs its operands on the stack up to this size, see conv2d_eigen.cpp.
#define EIGEN_STACK_ALLOCATION_LIMIT (1 << 20)

#include "lamina/cpu/linear.h"

#include <algorithm>
#include <cstring>

#include "lamina/cpu/eigen.h"
#include "lamina/tensor/math.h"

namespace lamina::cpu {
namespace {

using detail::ceil_div;
using detail::round_up;

#if defined(__AVX512F__)
constexpr int lanes = 16;
constexpr int rows_together = 4;  // 4 x 4 sums, of 32 registers
#elif defined(__AVX__)
constexpr int lanes = 8;
constexpr int rows_together = 2;  // 4 x 2 sums, of 16 registers
#else
constexpr int lanes = 4;
constexpr int rows_together = 2;
#endif
constexpr int outputs_together = 4;
constexpr std::int64_t most_dot_rows = 16;
constexpr std::int64_t block = 1024;  // terms: 4 rows of weights and 4 of inputs fill 32 KB of L1
constexpr std::int64_t task_bytes = 512 << 10;

typedef float Vector __attribute__((vector_size(lanes * sizeof(float))));

inline float sum_of_lanes(const Vector& v) {
  float parts[lanes];
  std::memcpy(parts, &v, sizeof(parts));
  for (int width = lanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) parts[i] += parts[i + width];
  }
  return parts[0];
}

/// sums[r][o] += the dot product of `count` terms of input row r and weight row o. Every loop over rows and outputs is
/// unrolled, or the running sums would live in memory.
template <int Rows, int Outputs>
void add_dots(const float* input, std::int64_t input_pitch, const float* weight, std::int64_t weight_pitch,
              std::int64_t count, float (*sums)[outputs_together]) {
  Vector total[Rows][Outputs] = {};
  std::int64_t k = 0;
  for (; k + lanes <= count; k += lanes) {
    Vector w[Outputs];
#pragma GCC unroll 4
    for (int o = 0; o < Outputs; ++o) std::memcpy(&w[o], weight + o * weight_pitch + k, sizeof(Vector));
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      Vector x;
      std::memcpy(&x, input + r * input_pitch + k, sizeof(Vector));
#pragma GCC unroll 4
      for (int o = 0; o < Outputs; ++o) total[r][o] += x * w[o];
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int o = 0; o < Outputs; ++o) {
      float sum = sum_of_lanes(total[r][o]);
      for (std::int64_t i = k; i < count; ++i) sum += input[r * input_pitch + i] * weight[o * weight_pitch + i];
      sums[r][o] += sum;
    }
  }
}

/// Outputs [first, first + Outputs) of all rows.
template <int Outputs>
void dot_products(std::int64_t rows, std::int64_t in, std::int64_t out, std::int64_t first, const LinearPointers& p) {
  float sums[most_dot_rows][outputs_together] = {};
  for (std::int64_t k = 0; k < in; k += block) {
    const std::int64_t count = std::min(block, in - k);
    const float* weight = p.weight + first * in + k;
    std::int64_t r = 0;
    for (; r + rows_together <= rows; r += rows_together) {
      add_dots<rows_together, Outputs>(p.input + r * in + k, in, weight, in, count, sums + r);
    }
    for (; r < rows; ++r) add_dots<1, Outputs>(p.input + r * in + k, in, weight, in, count, sums + r);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (int o = 0; o < Outputs; ++o) {
      const float y = sums[r][o] + (p.bias != nullptr ? p.bias[first + o] : 0.0f);
      p.output[r * out + first + o] = p.relu && y < 0.0f ? 0.0f : y;
    }
  }
}

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Map = Eigen::Map<RowMajor, Eigen::Unaligned, Eigen::OuterStride<>>;
using ConstMap = Eigen::Map<const RowMajor, Eigen::Unaligned, Eigen::OuterStride<>>;

// Tiles of a product: small enough for Eigen's packed operands to stay on the stack.
constexpr std::int64_t tile_rows = 192;
constexpr std::int64_t tile_outputs = 96;

void product_tile(std::int64_t in, std::int64_t out, std::int64_t row, std::int64_t rows, std::int64_t first,
                  std::int64_t outputs, const LinearPointers& p) {
  const ConstMap x(p.input + row * in, rows, in, Eigen::OuterStride<>(in));
  const ConstMap w(p.weight + first * in, outputs, in, Eigen::OuterStride<>(in));
  Map y(p.output + row * out + first, rows, outputs, Eigen::OuterStride<>(out));
  // The product adds to what is there, so the bias costs nothing.
  for (std::int64_t r = 0; r < rows; ++r) {
    if (p.bias != nullptr) {
      y.row(r) = Eigen::Map<const Eigen::RowVectorXf>(p.bias + first, outputs);
    } else {
      y.row(r).setZero();
    }
  }
  y.noalias() += x * w.transpose();
  if (p.relu) y = (y.array() < 0.0f).select(0.0f, y);
}

}  // namespace

bool linear_uses_dot_products(std::int64_t rows) { return rows <= most_dot_rows; }

void linear(std::int64_t rows, std::int64_t in, std::int64_t out, const LinearPointers& p, ThreadPool& pool) {
  if (!linear_uses_dot_products(rows)) {
    const std::int64_t down = ceil_div(rows, tile_rows);
    pool.parallel_for(ceil_div(out, tile_outputs) * down, [&](std::int64_t task, int) {
      const std::int64_t row = task % down * tile_rows;
      const std::int64_t first = task / down * tile_outputs;
      product_tile(in, out, row, std::min(tile_rows, rows - row), first, std::min(tile_outputs, out - first), p);
    });
    return;
  }
  const std::int64_t row_bytes = in * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t step = round_up(std::clamp<std::int64_t>(task_bytes / row_bytes, 1, out), std::int64_t{4});
  pool.parallel_for(ceil_div(out, step), [&](std::int64_t task, int) {
    const std::int64_t end = std::min(out, (task + 1) * step);
    std::int64_t o = task * step;
    for (; o + outputs_together <= end; o += outputs_together) dot_products<outputs_together>(rows, in, out, o, p);
    for (; o < end; ++o) dot_products<1>(rows, in, out, o, p);
  });
}

}  // namespace lamina::cpu
