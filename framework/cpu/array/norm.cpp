// Norms over threads: rows one after the other, or images channels last.

#include <algorithm>
#include <cmath>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/array/array.h"
#include "lamina/cpu/array/blocks.h"
#include "lamina/cpu/array/fold.h"
#include "lamina/cpu/conv2d/row_epilogue.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/tensor/constants.h"

namespace lamina::cpu {
namespace {

using namespace tables;

constexpr std::int64_t most = block<float>;

const std::byte* bytes_at(const Tensor& tensor, std::int64_t element) {
  return static_cast<const std::byte*>(tensor.raw()) + element * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

/// As floats, where they are or in `space`.
const float* floats_at(const Tensor& tensor, std::int64_t element, std::int64_t count, float* space) {
  const std::byte* const from = bytes_at(tensor, element);
  if (tensor.dtype() == DType::f32) return reinterpret_cast<const float*>(from);
  load(tensor.dtype(), from, space, count);
  return space;
}

/// Calls compute(where to) for up to `most` elements of the output, and applies the epilogue's chain to them.
template <class F>
void finish(const RowEpilogue& epilogue, std::span<const Tensor> inputs, Tensor& output, std::int64_t element,
            std::int64_t count, const F& compute) {
  alignas(64) float values[most], residual[most];
  auto* const target = const_cast<std::byte*>(bytes_at(output, element));
  float* const to = output.dtype() == DType::f32 ? reinterpret_cast<float*>(target) : values;
  compute(to);
  if (!epilogue.rest.empty()) {
    apply_rest(epilogue, inputs.size() > 1 ? floats_at(inputs[1], element, count, residual) : nullptr, to, count);
  }
  if (to == values) store(output.dtype(), values, target, count);
}

RowEpilogue epilogue_of(const NormProblem& problem, const Preparation& p) {
  return {.rest = problem.epilogue.chain, .functions = &best_kernel(apply_kernels(), p.device)};
}

/// A number for each of the channels of an image, of a problem's factors or summands.
Tensor of_channels(const Tensor& numbers, std::int64_t channels, float otherwise) {
  return detail::constant(numbers.defined()
                              ? numbers
                              : Tensor::from(std::vector(static_cast<std::size_t>(channels), otherwise), {channels}));
}

double folded(const FoldKernel& kernel, Fold fold, const Tensor& input, std::int64_t first, std::int64_t count,
              float below) {
  alignas(64) float space[most];
  double sum = 0;
  for (std::int64_t i = 0, here = 0; i < count; i += here) {
    here = input.dtype() == DType::f32 ? count : std::min(most, count - i);
    sum = kernel.row[static_cast<int>(fold)](floats_at(input, first + i, here, space), here, sum, below);
  }
  return sum;
}

/// What the row from element `first` on is normalised by; `scale` is a power of two without which the factor were
/// hardly a float.
Scaling scaling_of(const FoldKernel& kernel, const NormProblem& problem, const Tensor& input, std::int64_t first) {
  const auto count = static_cast<double>(problem.length);
  const bool centred = problem.kind == NormKind::centred, of_mean = problem.kind == NormKind::mean;
  const double mean = centred || of_mean ? folded(kernel, Fold::sum, input, first, problem.length, 0) / count : 0;
  const float near = centred ? static_cast<float>(mean) : 0;
  const double rest = centred ? mean - static_cast<double>(near) : 0;
  const double squares = of_mean ? 0 : folded(kernel, Fold::squares, input, first, problem.length, near);
  const double factor = of_mean                            ? 1 / (mean + problem.eps)
                        : problem.kind == NormKind::length ? 1 / std::max(std::sqrt(squares), problem.eps)
                                                           : 1 / std::sqrt(squares / count - rest * rest + problem.eps);
  const double scale = std::abs(factor) < 0x1p-60 ? 0x1p-70 : std::abs(factor) > 0x1p60 ? 0x1p70 : 1;
  return {.scale = static_cast<float>(scale),
          .mean = static_cast<float>(static_cast<double>(near) * scale),
          .rest = static_cast<float>(rest * scale),
          .factor = static_cast<float>(factor / scale)};
}

/// Inputs: what is normalised, and what the epilogue adds.
void norm_rows(const FoldKernel& kernel, const NormProblem& problem, const RowEpilogue& epilogue,
               std::span<const Tensor> inputs, Tensor& output, ThreadPool& pool) {
  // Elements of a task: long enough to hide the hand-out, short enough to balance.
  constexpr std::int64_t values_at_once = 8192;
  if (output.numel() == 0) return;
  const std::int64_t length = problem.length, rows = inputs[0].numel() / length;
  const std::int64_t step = std::max<std::int64_t>(values_at_once / length, 1);
  const float *const scale = floats(problem.scale), *const shift =
                                                        problem.shift.defined() ? floats(problem.shift) : nullptr;
  const bool planes = problem.inner > 1 || problem.channels == 1;
  pool.parallel_for(detail::ceil_div(rows, step), [&](std::int64_t task, int) {
    alignas(64) float space[most];
    for (std::int64_t row = task * step; row < std::min(rows, (task + 1) * step); ++row) {
      const Scaling of_row = scaling_of(kernel, problem, inputs[0], row * length);
      for (std::int64_t element = row * length, run = 0; element < (row + 1) * length; element += run) {
        const std::int64_t channel = element / problem.inner % problem.channels;
        run = std::min(most, (row + 1) * length - element);
        if (planes && problem.channels > 1) run = std::min(run, problem.inner - element % problem.inner);
        if (!planes) run = std::min(run, problem.channels - channel);
        Scaling scaling = of_row;
        if (planes) {
          scaling.factor *= scale == nullptr ? 1 : scale[channel],
              scaling.shift = shift == nullptr ? 0 : shift[channel];
        } else {
          scaling.by = scale == nullptr ? nullptr : scale + channel;
          scaling.plus = shift == nullptr ? nullptr : shift + channel;
        }
        finish(epilogue, inputs, output, element, run, [&](float* to) {
          kernel.scaled(scaling, 1, run, floats_at(inputs[0], element, run, space), run, to, run);
        });
      }
    }
  });
}

/// Norms of groups of the channels of images [N, C, H, W] that are stored channels last.
class NormPixels {
 public:
  NormPixels(const NormProblem& problem, const Preparation& preparation);
  std::size_t workspace() const;
  void operator()(std::span<const Tensor> inputs, Tensor& output, void* workspace, ThreadPool& pool) const;

 private:
  const FoldKernel* kernel_;
  RowEpilogue epilogue_;
  std::int64_t images_, channels_, pixels_, group_;  // `group_`: channels of one
  std::int64_t piece_;                               // pixels that are summed up at a time
  double eps_;
  bool centred_;
  Tensor scale_, shift_;  // [channels]
};

NormPixels::NormPixels(const NormProblem& problem, const Preparation& p)
    : kernel_(&best_kernel(fold_kernels(), p.device)),
      epilogue_(epilogue_of(problem, p)),
      images_(p.input().shape[0]),
      channels_(p.input().shape[1]),
      pixels_(p.input().shape[2] * p.input().shape[3]),
      group_(problem.length / pixels_),
      piece_(std::clamp<std::int64_t>(16384 / channels_, 1, pixels_)),  // 64 KB stay where the second level keeps them
      eps_(problem.eps),
      centred_(problem.kind == NormKind::centred),
      scale_(of_channels(problem.scale, channels_, 1)),
      shift_(of_channels(problem.shift, channels_, 0)) {}

std::size_t NormPixels::workspace() const {
  const std::int64_t pieces = detail::ceil_div(pixels_, piece_);
  return static_cast<std::size_t>(images_ * channels_) *
         (static_cast<std::size_t>(3 * pieces) * sizeof(double) + 4 * sizeof(float));
}

void NormPixels::operator()(std::span<const Tensor> inputs, Tensor& output, void* workspace, ThreadPool& pool) const {
  const std::int64_t pieces = detail::ceil_div(pixels_, piece_), values = images_ * channels_, all = pieces * values;
  auto* const sums = static_cast<double*>(workspace);  // first values, differences, squares [images, pieces, channels]
  auto* const factors =
      reinterpret_cast<float*>(sums + 3 * all);  // means, rests, factors [images, channels], then those of images
  const auto pixel_of = [&](std::int64_t task) { return task / pieces * pixels_ + task % pieces * piece_; };
  const auto pixels_of = [&](std::int64_t task) { return std::min(piece_, pixels_ - task % pieces * piece_); };
  pool.parallel_for(images_ * pieces, [&](std::int64_t task, int) {
    constexpr std::int64_t lines = 8, width = 512;
    for (std::int64_t channel = 0; channel < channels_; channel += width) {
      const std::int64_t count = std::min(width, channels_ - channel), pixel = pixel_of(task),
                         end = pixel + pixels_of(task);
      float space[lines][width], first[width + FoldKernel::slack];
      double sum[width + FoldKernel::slack] = {}, squares[width + FoldKernel::slack] = {};
      const auto line = [&](std::int64_t at, float* to) {
        return floats_at(inputs[0], at * channels_ + channel, count, to);
      };
      std::copy_n(line(pixel, space[0]), count, first);
      for (std::int64_t i = pixel; i < end; i += lines) {
        const float* from[lines];
        const auto some = static_cast<std::size_t>(std::min(lines, end - i));
        for (std::size_t k = 0; k < some; ++k) from[k] = line(i + static_cast<std::int64_t>(k), space[k]);
        kernel_->columns[static_cast<int>(Fold::sum)]({from, some}, count, sum, first);
        kernel_->columns[static_cast<int>(Fold::squares)]({from, some}, count, squares, first);
      }
      double* const at = sums + task * channels_ + channel;
      for (std::int64_t c = 0; c < count; ++c) {
        at[c] = static_cast<double>(first[c]);
        at[c + all] = sum[c] - static_cast<double>(end - pixel) * at[c];
        at[c + 2 * all] = squares[c];
      }
    }
  });
  const std::int64_t groups = channels_ / group_;
  pool.parallel_for(images_ * groups, [&](std::int64_t task, int) {
    const std::int64_t image = task / groups, begin = task % groups * group_;
    const auto each = [&](const auto& add) {
      for (std::int64_t k = 0; k < pieces; ++k) {
        const auto count = static_cast<double>(std::min(piece_, pixels_ - k * piece_));
        for (std::int64_t c = begin; c < begin + group_; ++c) {
          const double* const at = sums + (image * pieces + k) * channels_ + c;
          add(count, at[0], at[all], at[2 * all]);
        }
      }
    };
    const auto elements = static_cast<double>(group_ * pixels_);
    double mean = 0, squares = 0;
    if (centred_)
      each([&](double count, double first, double differences, double) { mean += count * first + differences; });
    mean /= elements;
    each([&](double count, double first, double differences, double of) {
      const double off = first - mean;  // those of differences to the mean
      squares += of + off * (2 * differences + count * off);
    });
    const double factor = 1 / std::sqrt(squares / elements + eps_);
    for (std::int64_t c = image * channels_ + begin; c < image * channels_ + begin + group_; ++c) {
      factors[c] = static_cast<float>(mean);
      factors[c + values] = static_cast<float>(mean - static_cast<double>(factors[c]));
      factors[c + 2 * values] = static_cast<float>(factor * static_cast<double>(floats(scale_)[c % channels_]));
    }
  });
  pool.parallel_for(images_ * pieces, [&](std::int64_t task, int) {
    const std::int64_t width = std::min(channels_, most), height = most / width;
    alignas(64) float space[most];
    for (std::int64_t channel = 0; channel < channels_; channel += width) {
      const std::int64_t count = std::min(width, channels_ - channel), pixel = pixel_of(task),
                         end = pixel + pixels_of(task);
      const float* const of = factors + task / pieces * channels_ + channel;
      const Scaling scaling = {
          .by = of + 2 * values, .plus = floats(shift_) + channel, .less = of, .rest_of = of + values};
      for (std::int64_t i = pixel; i<end; i += channels_> width ? 1 : height) {
        const std::int64_t rows = channels_ > width ? 1 : std::min(height, end - i), element = i * channels_ + channel;
        finish(epilogue_, inputs, output, element, rows * count, [&](float* to) {
          kernel_->scaled(scaling, rows, count, floats_at(inputs[0], element, rows * count, space), count, to, count);
        });
      }
    }
  });
}

NormProblem with_constants(NormProblem problem) {
  if (problem.shift.defined()) problem.scale = of_channels(problem.scale, problem.channels, 1);
  problem.scale = detail::constant(problem.scale), problem.shift = detail::constant(problem.shift);
  return problem;
}

}  // namespace

std::unique_ptr<Operator> prepare_norm(const NormProblem& problem, const Preparation& p) {
  const FoldKernel& kernel = best_kernel(fold_kernels(), p.device);
  return make_operator(detail::concat("rows, ", name(kernel.set)),
                       [problem = with_constants(problem), &kernel, epilogue = epilogue_of(problem, p)](
                           Inputs inputs, Outputs outputs, const Execution& execution) {
                         norm_rows(kernel, problem, epilogue, inputs, outputs[0], *execution.pool);
                       });
}

std::unique_ptr<Operator> prepare_norm_of_pixels(const NormProblem& problem, const Preparation& p) {
  const NormPixels norm(problem, p);
  return make_operator("groups of channels", {.workspace = norm.workspace()},
                       [norm](Inputs inputs, Outputs outputs, const Execution& execution) {
                         norm(inputs, outputs[0], execution.workspace, *execution.pool);
                       });
}

}  // namespace lamina::cpu
