// A few columns of [extent, inner] at a time, side by side, so that loops are over neighbours in memory; where there is
// but one, inner = 1, over the extent. A NaN in a column makes it NaN.

#include "lamina/cpu/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lamina/base/math.h"
#include "lamina/cpu/vector_math.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t width = 128;
constexpr std::int64_t lanes = 16;

float greater(float a, float b) { return a > b ? a : b; }

/// Of one row: the largest, NaN left out, and the sum of exp(x - largest), which any NaN makes NaN.
float largest_of(const float* x, std::int64_t count) {
  float lane[lanes];
  std::fill_n(lane, lanes, -std::numeric_limits<float>::infinity());
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::int64_t l = 0; l < lanes; ++l) lane[l] = greater(x[i + l], lane[l]);
  }
  for (; i < count; ++i) lane[0] = greater(x[i], lane[0]);
  return *std::max_element(lane, lane + lanes);
}

double sum_of(const float* x, std::int64_t count) {
  double lane[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::int64_t l = 0; l < lanes; ++l) lane[l] += static_cast<double>(x[i + l]);
  }
  for (; i < count; ++i) lane[0] += static_cast<double>(x[i]);
  double sum = 0;
  for (const double one : lane) sum += one;
  return sum;
}

double sum_of_exp(const float* x, float largest, std::int64_t count) {
  constexpr std::int64_t piece = 512;
  float e[piece];
  double sum = 0;
  for (std::int64_t first = 0; first < count; first += piece) {
    const std::int64_t here = std::min(piece, count - first);
    for (std::int64_t i = 0; i < here; ++i) e[i] = exp_of(x[first + i] - largest);
    sum += sum_of(e, here);
  }
  return sum;
}

void row(SoftmaxKind kind, const float* x, float* y, std::int64_t extent) {
  const float largest = largest_of(x, extent);
  if (kind == SoftmaxKind::log_softmax) {
    const double log = static_cast<double>(largest) + std::log(sum_of_exp(x, largest, extent));
    for (std::int64_t i = 0; i < extent; ++i) y[i] = static_cast<float>(static_cast<double>(x[i]) - log);
    return;
  }
  for (std::int64_t i = 0; i < extent; ++i) y[i] = exp_of(x[i] - largest);
  const double factor = 1 / sum_of(y, extent);
  for (std::int64_t i = 0; i < extent; ++i) y[i] = static_cast<float>(static_cast<double>(y[i]) * factor);
}

/// `count` columns, whose elements lie `pitch` apart.
void columns(SoftmaxKind kind, const float* x, float* y, std::int64_t extent, std::int64_t pitch, std::int64_t count) {
  float largest[width];
  double sum[width] = {};
  std::fill_n(largest, count, -std::numeric_limits<float>::infinity());
  for (std::int64_t i = 0; i < extent; ++i) {
    for (std::int64_t j = 0; j < count; ++j) largest[j] = greater(x[i * pitch + j], largest[j]);
  }
  for (std::int64_t i = 0; i < extent; ++i) {
    float e[width];
    for (std::int64_t j = 0; j < count; ++j) e[j] = exp_of(x[i * pitch + j] - largest[j]);
    for (std::int64_t j = 0; j < count; ++j) sum[j] += static_cast<double>(e[j]);
    if (kind == SoftmaxKind::softmax) std::copy_n(e, count, y + i * pitch);
  }
  for (std::int64_t j = 0; j < count; ++j) {
    sum[j] = kind == SoftmaxKind::softmax ? 1 / sum[j] : static_cast<double>(largest[j]) + std::log(sum[j]);
  }
  for (std::int64_t i = 0; i < extent; ++i) {
    float* const out = y + i * pitch;
    if (kind == SoftmaxKind::softmax) {
      for (std::int64_t j = 0; j < count; ++j) out[j] = static_cast<float>(static_cast<double>(out[j]) * sum[j]);
    } else {
      const float* const in = x + i * pitch;
      for (std::int64_t j = 0; j < count; ++j) out[j] = static_cast<float>(static_cast<double>(in[j]) - sum[j]);
    }
  }
}

}  // namespace

void softmax(SoftmaxKind kind, const float* input, float* output, std::int64_t outer, std::int64_t extent,
             std::int64_t inner, ThreadPool& pool) {
  const std::int64_t pieces = detail::ceil_div(inner, width);
  pool.parallel_for(extent == 0 ? 0 : outer * pieces, [=](std::int64_t task, int) {
    const std::int64_t column = task % pieces * width, count = std::min(width, inner - column);
    const float* const x = input + task / pieces * extent * inner + column;
    float* const y = output + task / pieces * extent * inner + column;
    inner == 1 ? row(kind, x, y, extent) : columns(kind, x, y, extent, inner, count);
  });
}

}  // namespace lamina::cpu
