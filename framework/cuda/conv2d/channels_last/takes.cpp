// Which layers the channels-last convolution takes.

#include "lamina/cuda/conv2d/channels_last/channels_last.h"
#include "lamina/cuda/conv2d/channels_last/choice.h"
#include "lamina/cuda/conv2d/channels_last/maps.h"
#include "lamina/cuda/conv2d/preference.h"
#include "lamina/kernel/rules/patches.h"

namespace lamina::cuda::channels_last {
namespace {

/// Whether the channels of a pixel lie side by side. A map of one pixel is stored alike in both layouts.
bool channels_last(Layout layout, std::int64_t pixels) { return layout == Layout::nhwc || pixels == 1; }

/// Input, in 16 bits, and output may be slices of channels that TMA can copy; what is added lies as the output does.
bool slices_fit(const Preparation& p) {
  const auto fits = [](const View& view) {
    const std::size_t size = size_of(view.format.dtype);
    return view.format.layout == Layout::nhwc && view.alignment % 16 == 0 && view.channels < max_pixels &&
           static_cast<std::size_t>(view.channels) * size % 16 == 0;
  };
  const View &input = p.input(), &output = p.output();
  if (input.is_slice() && (size_of(input.format.dtype) != 2 || !fits(input))) return false;
  if (output.is_slice() && (p.inputs.size() != 1 || !fits(output))) return false;
  return p.inputs.size() == 1 || !p.inputs[1].is_slice();
}

bool formats_fit(const ConvGeometry& g, const Preparation& p) {
  const Format in = p.input().format, out = p.output().format;
  return in.dtype == storage_type(p.precision) && (out.dtype == in.dtype || out.dtype == DType::f32) &&
         channels_last(in.layout, g.in_pixels()) && channels_last(out.layout, g.out_pixels()) &&
         static_cast<std::size_t>(p.input().pixel_pitch()) * size_of(in.dtype) % 16 == 0 &&
         static_cast<std::size_t>(g.out_channels) * size_of(out.dtype) % 16 == 0 && slices_fit(p);
}

/// An addition comes through the store buffers, if it is of the precision's type and nothing but a clamp follows it; in
/// 16 bits it may follow one function.
bool addition_fits(const Epilogue& epilogue, const Preparation& p) {
  if (!epilogue.reads_operands()) return true;
  const DType output = p.output().format.dtype;
  const Finish finish = finish_of(epilogue, output, size_of(output) == 2);
  return output == storage_type(p.precision) &&
         (finish.addition == Finish::Addition::last ? finish.kind != Finish::Kind::chain
                                                    : finish.kind == Finish::Kind::clamp);
}

/// What the layer is expected to take with its pooling and without, as the rule has it.
struct Pooling {
  std::optional<Choice> with, without;

  Pooling(const ConvProblem& problem, const Preparation& p) {
    Demands demands = demands_of(problem.epilogue, p.output().format.dtype);
    with = choose(problem.geometry, p, demands);
    demands.pooled = false;
    without = choose(problem.geometry, p, demands);
  }
};

/// Maxima of 2 x 2 pixels, in 16 bits.
bool pooling_fits(const ConvProblem& problem, const Preparation& p) {
  const Epilogue& epilogue = problem.epilogue;
  const PoolGeometry& pool = *epilogue.pool;
  const ConvGeometry& g = problem.geometry;
  const DType output = p.output().format.dtype;
  if (pool.kernel_height != 2 || pool.kernel_width != 2 || pool.stride_height != 2 || pool.stride_width != 2 ||
      pool.padding_height != 0 || pool.padding_width != 0 || pool.dilation_height != 1 || pool.dilation_width != 1 ||
      pool.in_height != g.out_height || pool.in_width != g.out_width || pool.out_height != g.out_height / 2 ||
      pool.out_width != g.out_width / 2 || size_of(output) != 2 || epilogue.reads_operands() ||
      finish_of(epilogue, output).kind != Finish::Kind::clamp) {
    return false;
  }
  const Pooling pooling(problem, p);
  // Where batches must not matter, one that is not pooled here has to add up in the same order.
  return pooling.with && pooling.without && (!p.batch_invariant || pooling.with->adds_up_like(*pooling.without));
}

/// Groups of whole steps of channels and whole blocks of filters: none multiplies what another's filters see.
bool groups_fit(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  return size_of(storage_type(p.precision)) == 2 && !problem.epilogue.pool &&
         g.group_in_channels() % step_terms(Operand::fp16) == 0 && g.group_out_channels() % block_filters == 0;
}

}  // namespace

bool takes_windows(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  Epilogue epilogue = problem.epilogue;
  epilogue.pool.reset();
  return p.device.wgmma && finish_takes(epilogue, p) && addition_fits(epilogue, p) && formats_fit(g, p) &&
         (g.groups == 1 || groups_fit(problem, p)) && expressible(g) && g.batch * g.out_pixels() <= max_pixels &&
         (!problem.epilogue.pool || pooling_fits(problem, p));
}

namespace {

/// Patches of images whose few channels TMA cannot read by themselves.
bool takes_patches(const ConvProblem& problem, const Preparation& p) {
  if (!lamina::detail::is_patches(problem.geometry) || p.inputs.size() != 1 || p.has_slices()) return false;
  if (p.input().format.layout != Layout::nhwc || p.output().format.layout != Layout::nhwc) return false;
  const lamina::detail::PatchesAsRows rows(problem, p);
  return takes_windows(rows.problem, rows.preparation);
}

}  // namespace

bool takes(const ConvProblem& problem, const Preparation& p) {
  return takes_windows(problem, p) || takes_patches(problem, p);
}

bool pays(const ConvProblem& problem, const Preparation& p) {
  if (!problem.epilogue.pool) return true;
  const Pooling pooling(problem, p);
  return preference::pooled(problem, {.with = pooling.with->cycles, .without = pooling.without->cycles});
}

bool pays_sum(const ConvSumProblem& problem, const Preparation& p) { return pays(problem.first, p); }

bool takes_sum(const ConvSumProblem& problem, const Preparation& p) {
  if (p.inputs.size() != 2 || size_of(storage_type(p.precision)) != 2 || p.has_slices()) return false;
  Preparation first = p, second = p;
  first.inputs = p.inputs.first(1), second.inputs = p.inputs.subspan(1);
  return problem.first.geometry.groups == 1 && takes_windows(problem.first, first) && problem.second.groups == 1 &&
         formats_fit(problem.second, second) && expressible(problem.second) &&
         problem.second.batch == problem.first.geometry.batch;
}

}  // namespace lamina::cuda::channels_last
