// Norms over threads: rows one after the other, or images channels last.

#include "lamina/cpu/array/norm_rows.h"

#include <algorithm>
#include <cmath>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/array/array.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/tensor/constants.h"

namespace lamina::cpu {
namespace {

using namespace tables;

const std::byte* bytes_at(const Tensor& tensor, std::int64_t element) {
  return static_cast<const std::byte*>(tensor.raw()) + static_cast<std::size_t>(element) * size_of(tensor.dtype());
}

NormRowsKernel::End end_at(const RowEpilogue& epilogue, std::span<const Tensor> inputs, Tensor& output,
                           std::int64_t element) {
  return {.output = const_cast<std::byte*>(bytes_at(output, element)),
          .residual = inputs.size() > 1 ? bytes_at(inputs[1], element) : nullptr,
          .epilogue = &epilogue};
}

/// A number for each of the channels of an image, of a problem's factors or summands.
Tensor of_channels(const Tensor& numbers, std::int64_t channels, float otherwise) {
  return detail::constant(numbers.defined()
                              ? numbers
                              : Tensor::from(std::vector(static_cast<std::size_t>(channels), otherwise), {channels}));
}

/// Inputs: what is normalised, and what the epilogue adds.
void norm_rows(const NormRowsKernel& kernel, const NormProblem& problem, const RowEpilogue& epilogue,
               std::span<const Tensor> inputs, Tensor& output, ThreadPool& pool) {
  // Elements of a task: long enough to hide the hand-out, short enough to balance.
  constexpr std::int64_t chunk = 8192;
  if (output.numel() == 0) return;
  const std::int64_t length = problem.length, rows = inputs[0].numel() / length;
  const std::int64_t step = std::max<std::int64_t>(chunk / length, 1);
  const auto values = [](const Tensor& tensor) {
    return tensor.defined() ? static_cast<const float*>(tensor.raw()) : nullptr;
  };
  pool.parallel_for(detail::ceil_div(rows, step), [&](std::int64_t task, int) {
    const std::int64_t first = task * step;
    const NormRowsKernel::Rows some = {.input = bytes_at(inputs[0], first * length),
                                       .scale = values(problem.scale),
                                       .shift = values(problem.shift),
                                       .end = end_at(epilogue, inputs, output, first * length),
                                       .first = first,
                                       .rows = std::min(step, rows - first),
                                       .length = length,
                                       .inner = problem.inner,
                                       .channels = problem.channels,
                                       .eps = static_cast<float>(problem.eps),
                                       .kind = problem.kind};
    output.dtype() == DType::bf16 ? kernel.bf16(some) : kernel.f32(some);
  });
}

/// Norms of groups of the channels of images [N, C, H, W] that are stored channels last.
class NormPixels {
 public:
  NormPixels(const NormProblem& problem, const Preparation& preparation);
  std::size_t workspace() const;
  void operator()(std::span<const Tensor> inputs, Tensor& output, void* workspace, ThreadPool& pool) const;

 private:
  const NormRowsKernel* kernel_;
  RowEpilogue epilogue_;
  std::int64_t images_, channels_, pixels_, group_;  // `group_`: channels of one
  std::int64_t piece_;                               // pixels that are summed up at a time
  double eps_;
  bool centred_;
  Tensor scale_, shift_;  // [channels]
};

NormPixels::NormPixels(const NormProblem& problem, const Preparation& p)
    : kernel_(&best_kernel(norm_rows_kernels(), p.device)),
      epilogue_(row_epilogue(problem.epilogue, p.device)),
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
  const auto piece = [&](std::int64_t task) {
    const std::int64_t image = task / pieces, first = task % pieces * piece_;
    return std::pair(NormRowsKernel::Pixels{bytes_at(inputs[0], (image * pixels_ + first) * channels_),
                                            std::min(piece_, pixels_ - first), channels_},
                     (image * pixels_ + first) * channels_);
  };
  const bool bf16 = output.dtype() == DType::bf16;
  pool.parallel_for(images_ * pieces, [&](std::int64_t task, int) {
    double* const at = sums + task * channels_;
    (bf16 ? kernel_->sums_of_bf16 : kernel_->sums_of_f32)(piece(task).first, {at, at + all, at + 2 * all});
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
    const auto [pixels, first] = piece(task);
    const float* const of = factors + task / pieces * channels_;
    (bf16 ? kernel_->scaled_bf16 : kernel_->scaled_f32)(pixels, {of, of + values, of + 2 * values, floats(shift_)},
                                                        end_at(epilogue_, inputs, output, first));
  });
}

NormProblem with_constants(NormProblem problem) {
  problem.scale = detail::constant(problem.scale), problem.shift = detail::constant(problem.shift);
  return problem;
}

}  // namespace

std::unique_ptr<Operator> prepare_norm(const NormProblem& problem, const Preparation& p) {
  const NormRowsKernel& kernel = best_kernel(norm_rows_kernels(), p.device);
  return make_operator(
      detail::concat("rows, ", name(kernel.set)),
      [problem = with_constants(problem), &kernel, epilogue = row_epilogue(problem.epilogue, p.device)](
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
