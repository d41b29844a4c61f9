#include "lamina/cpu/array/norm.h"

#include <algorithm>
#include <cmath>

#include "lamina/cpu/array/blocks.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t lanes = 16;

/// The sum of f of each value.
template <class F>
double sum(const double* values, std::int64_t count, F f) {
  double lane[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::int64_t l = 0; l < lanes; ++l) lane[l] += f(values[i + l]);
  }
  for (; i < count; ++i) lane[i % lanes] += f(values[i]);
  double result = 0;
  for (const double one : lane) result += one;
  return result;
}

const float* floats_or_null(const Tensor& tensor) {
  return tensor.defined() ? static_cast<const float*>(tensor.raw()) : nullptr;
}

}  // namespace

void norm(const NormProblem& problem, const Tensor& input, Tensor& output, ThreadPool& pool) {
  const std::int64_t length = problem.length, inner = problem.inner, channels = problem.channels;
  if (output.numel() == 0) return;
  const float* const scale = floats_or_null(problem.scale);
  const float* const shift = floats_or_null(problem.shift);
  const auto* const from = static_cast<const std::byte*>(input.raw());
  auto* const to = static_cast<std::byte*>(output.raw());
  pool.parallel_for(input.numel() / length, [&](std::int64_t row, int) {
    double values[block<double>];
    const auto at = [row, length](auto* memory, DType dtype, std::int64_t i) {
      return memory + static_cast<std::size_t>(row * length + i) * size_of(dtype);
    };
    const auto each_block = [&](auto f) {
      for (std::int64_t first = 0; first < length; first += block<double>) {
        const std::int64_t count = std::min(block<double>, length - first);
        load(input.dtype(), at(from, input.dtype(), first), values, count);
        f(first, count);
      }
    };
    double mean = 0, squares = 0;
    if (problem.centred) {
      each_block([&](std::int64_t, std::int64_t count) { mean += sum(values, count, [](double v) { return v; }); });
      mean /= static_cast<double>(length);
    }
    each_block([&](std::int64_t, std::int64_t count) {
      squares += sum(values, count, [mean](double v) { return (v - mean) * (v - mean); });
    });
    const double factor = 1 / std::sqrt(squares / static_cast<double>(length) + problem.eps);
    each_block([&](std::int64_t first, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) values[i] = (values[i] - mean) * factor;
      // Stretches of one channel each, or of one element of each channel after the other.
      for (std::int64_t i = 0; i < count;) {
        const std::int64_t element = row * length + first + i, channel = element / inner % channels;
        const std::int64_t run = std::min(count - i, inner > 1 ? inner - element % inner : channels - channel);
        const std::int64_t step = inner > 1 ? 0 : 1;
        if (scale != nullptr) {
          for (std::int64_t j = 0; j < run; ++j) values[i + j] *= static_cast<double>(scale[channel + j * step]);
        }
        if (shift != nullptr) {
          for (std::int64_t j = 0; j < run; ++j) values[i + j] += static_cast<double>(shift[channel + j * step]);
        }
        i += run;
      }
      store(output.dtype(), values, at(to, output.dtype(), first), count);
    });
  });
}

}  // namespace lamina::cpu
