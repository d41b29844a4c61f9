// Norms of rows. Layer norms of up to 1024 elements are layer_norm.cuh's. Of others a warp owns a row of up to 256
// elements, and a block of 256 or 512 threads one of up to 8192, in registers, so that memory is read once. Longer rows
// are cut into parts of as many elements as a block holds: one launch finds each part's mean and sum of squares, and
// another, once all are known, normalises them. So an image that is one row has the whole GPU.
//
// The mean is that of the differences from the row's first element, and the variance that of the differences from the
// mean: neither loses a small spread around a large value. Sums are of at most 16 elements a thread. Shared memory: 128
// bytes. Preconditions: none.
// Source, of parts: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
// 1979.

#include "lamina/base/math.h"
#include "lamina/cuda/array/array.h"
#include "lamina/cuda/array/layer_norm.cuh"
#include "lamina/cuda/array/norm_rows.cuh"
#include "lamina/cuda/array/walk.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/norm_rules.h"
#include "lamina/tensor/constants.h"

namespace lamina::cuda {
namespace {

using namespace tables;

/// threads: that share a row; items: elements that each holds, in packs of `size`.
template <class T, int threads, int items, int size>
__global__ void __launch_bounds__(threads > 256 ? threads : 256)
    norm_kernel(const T* input, T* output, std::int64_t rows, const __grid_constant__ NormSettings s,
                const __grid_constant__ Channels channels) {
  __shared__ float shared[warp];
  let_successor_start();
  wait_for_predecessor();
  constexpr int together = threads > warp ? 1 : 256 / warp;
  const int lane = static_cast<int>(threadIdx.x) % threads;
  const std::int64_t step = std::int64_t{gridDim.x} * together;
  for (std::int64_t row = std::int64_t{blockIdx.x} * together + static_cast<int>(threadIdx.x) / threads; row < rows;
       row += step) {
    const T* x = input + row * s.length;
    Held<T, threads, items, size> held(x, s.length, lane);
    const auto length = static_cast<float>(s.length);
    const float first = s.centred() ? to_f32(x[0]) : 0.0f;
    if constexpr (threads > warp) __syncthreads();  // the row's first element is read before it is written over
    const float mean = s.centred() ? held.sum(shared, [&](float v) { return v - first; }) / length : 0.0f;
    const float squares = held.counted(s, shared, [&](float v) { return v - first - mean; });
    const float factor = s.factor(squares);
    held.each_pack([&](const float* v, std::int64_t i) {
      finish_pack<size>(s, channels, output, row * s.length + i, i,
                        [&](int j) { return (v[j] - first - mean) * factor; });
    });
  }
}

std::int64_t parts_of(std::int64_t length) { return detail::ceil_div<std::int64_t>(length, part_elements); }

template <class T, int size>
__global__ void __launch_bounds__(part_threads)
    norm_parts_kernel(const T* input, NormPart* parts, std::int64_t all, std::int64_t of_row,
                      const __grid_constant__ NormSettings s) {
  __shared__ float shared[warp];
  let_successor_start();
  wait_for_predecessor();
  for (std::int64_t p = blockIdx.x; p < all; p += gridDim.x) {
    const std::int64_t begin = p % of_row * part_elements;
    const T* x = input + p / of_row * s.length + begin;
    const std::int64_t count = min(s.length - begin, std::int64_t{part_elements});
    Held<T, part_threads, part_items, size> held(x, count, static_cast<int>(threadIdx.x));
    const float first = s.centred() ? to_f32(x[0]) : 0.0f;
    const float more =
        s.centred() ? held.sum(shared, [&](float v) { return v - first; }) / static_cast<float>(count) : 0.0f;
    const float squares = held.counted(s, shared, [&](float v) { return v - first - more; });
    if (threadIdx.x == 0) parts[p] = {first + more, squares};
  }
}

template <class T, int size>
__global__ void __launch_bounds__(part_threads)
    norm_of_parts_kernel(const T* input, T* output, const NormPart* parts, std::int64_t all, std::int64_t of_row,
                         const __grid_constant__ NormSettings s, const __grid_constant__ Channels channels) {
  __shared__ float shared[warp];
  let_successor_start();
  wait_for_predecessor();
  for (std::int64_t p = blockIdx.x; p < all; p += gridDim.x) {
    const std::int64_t row = p / of_row, begin = p % of_row * part_elements;
    const auto length = static_cast<float>(s.length);
    const NormPart* const own = parts + row * of_row;
    const auto sum = [&](auto f) {
      float total = 0;
      for (std::int64_t i = threadIdx.x; i < of_row; i += part_threads) {
        total += f(own[i], static_cast<float>(min(s.length - i * part_elements, std::int64_t{part_elements})));
      }
      return sum_of_row<part_threads>(total, shared);
    };
    const float first = own[0].mean;
    const float mean = sum([&](NormPart part, float count) { return count * (part.mean - first); }) / length;
    const float squares = sum([&](NormPart part, float count) {
      const float d = part.mean - first - mean;
      return part.squares + count * d * d;
    });
    const float factor = s.factor(squares);
    const std::int64_t count = min(s.length - begin, std::int64_t{part_elements});
    Held<T, part_threads, part_items, size> held(input + row * s.length + begin, count, static_cast<int>(threadIdx.x));
    held.each_pack([&](const float* v, std::int64_t i) {
      finish_pack<size>(s, channels, output, row * s.length + begin + i, begin + i,
                        [&](int j) { return (v[j] - first - mean) * factor; });
    });
  }
}

/// Rows of more than part_elements elements.
template <int size, class T>
void norm_by_parts(const NormSettings& settings, const Channels& channels, const T* input, T* output, std::int64_t rows,
                   NormPart* parts, Stream stream) {
  const std::int64_t of_row = parts_of(settings.length), all = rows * of_row;
  const Launch how = {.grid = dim3(grid_for(all, 1)), .block = dim3(part_threads)};
  launch_kernel(norm_parts_kernel<T, size>, how, stream, input, parts, all, of_row, settings);
  launch_kernel(norm_of_parts_kernel<T, size>, how, stream, input, output, static_cast<const NormPart*>(parts), all,
                of_row, settings, channels);
}

/// `workspace` holds a NormPart for each part of a long row.
void run_norm(const NormSettings& settings, const Tensor& input, Tensor& output, void* workspace, Stream stream) {
  const std::int64_t count = output.numel();
  Channels channels = {settings.inner, settings.channels, Divider(1), Divider(1), Channels::Way::wide};
  if (settings.inner == 1 && settings.channels == settings.length) {
    channels.way = Channels::Way::in_row;
  } else if (count < narrow_count && settings.inner < narrow_count && settings.channels < narrow_count) {
    channels.by_inner = Divider(settings.inner);
    channels.by_channels = Divider(settings.channels);
    channels.way = Channels::Way::narrow;
  }
  const std::int64_t rows = count / settings.length;
  with_element_type(output.dtype(), [&]<class T>(T*) {
    const auto start = [&](auto kernel, int block, int together) {
      launch_kernel(kernel, {.grid = dim3(grid_for(rows, together)), .block = dim3(static_cast<unsigned>(block))},
                    stream, elements<T>(input), elements<T>(output), rows, settings, channels);
    };
    constexpr int size = Pack<T>::size;
    const bool packs = settings.length % size == 0 && aligned_to_16(input.raw()) && aligned_to_16(output.raw());
    if (packs && channels.way == Channels::Way::in_row && settings.scale != nullptr && settings.shift != nullptr &&
        settings.length <= 1024) {
      return start_layer_norm(FloatRows<T>{elements<T>(input), elements<T>(output)}, settings, rows, stream);
    }
    if (settings.length <= 256) return start(norm_kernel<T, warp, 8, 1>, 256, 8);
    if (settings.length <= 1024) return start(norm_kernel<T, 256, 4, 1>, 256, 1);
    const auto start_long = [&]<int wide>(std::integral_constant<int, wide>) {
      if (settings.length <= part_elements) {
        return start(norm_kernel<T, part_threads, part_items, wide>, part_threads, 1);
      }
      norm_by_parts<wide>(settings, channels, elements<T>(input), elements<T>(output), rows,
                          static_cast<NormPart*>(workspace), stream);
    };
    const bool no_parameters = settings.scale == nullptr && settings.shift == nullptr;
    packs && (no_parameters || channels.packs_of(size)) ? start_long(std::integral_constant<int, size>())
                                                        : start_long(std::integral_constant<int, 1>());
  });
}

/// Whether a row is a whole image channels last, which is as much one run of memory as one of planes.
bool is_of_images(const NormProblem& problem, const Preparation& p) {
  const View& input = p.input();
  return input.format.layout == Layout::nhwc && is_float(input.format.dtype) && !p.has_slices() &&
         detail::is_of_groups(problem, p) && problem.length * input.shape[0] == input.shape.numel();
}

/// Layer norms of codes to codes.
bool is_of_codes(const NormProblem& problem, const Preparation& p) {
  const auto plain = [](const View& view) {
    return detail::is_code(view) && view.format.layout == Layout::nchw && !view.is_slice() && view.alignment % 4 == 0;
  };
  return plain(p.input()) && plain(p.output()) && p.inputs.size() == 1 && problem.epilogue.chain.empty() &&
         problem.inner == 1 && problem.channels == problem.length && problem.length % 4 == 0 &&
         problem.length <= 1024 && problem.scale.defined() && problem.shift.defined();
}

}  // namespace

bool takes_norm(const NormProblem& problem, const Preparation& p) {
  if (p.has_codes()) return is_of_codes(problem, p);
  return p.inputs.size() == 1 && p.outputs.size() == 1 &&
         (detail::is_normalisable(problem, p) || is_of_images(problem, p)) && problem.epilogue.chain.empty() &&
         p.input().format == p.output().format && p.input().format.dtype != DType::f64;
}

std::unique_ptr<Operator> prepare_norm(const NormProblem& problem, const Preparation& p) {
  const Tensor scale = detail::constant(problem.scale, p.device.device),
               shift = detail::constant(problem.shift, p.device.device);
  const NormSettings settings = {.length = problem.length,
                                 .eps = static_cast<float>(problem.eps),
                                 .kind = problem.kind,
                                 .inner = is_of_images(problem, p) ? 1 : problem.inner,
                                 .channels = problem.channels};
  const std::int64_t rows = p.input().shape.numel() / std::max<std::int64_t>(problem.length, 1);
  const std::size_t workspace = problem.length <= part_elements
                                    ? 0
                                    : static_cast<std::size_t>(rows * parts_of(problem.length)) * sizeof(NormPart);
  return make_on_device(index(p), "one pass", {.workspace = workspace},
                        [=, of_codes = p.has_codes(), from = p.input(), to = p.output()](Inputs inputs, Outputs outputs,
                                                                                         const Execution& execution) {
                          NormSettings with = settings;
                          with.scale = floats(scale), with.shift = floats(shift);  // which the operator keeps
                          if (of_codes) {
                            const CodeRows all = {static_cast<const std::uint8_t*>(inputs[0].raw()),
                                                  static_cast<std::uint8_t*>(outputs[0].raw()), Meaning(from),
                                                  Results(to)};
                            return start_layer_norm(all, with, rows, execution.stream);
                          }
                          run_norm(with, inputs[0], outputs[0], execution.workspace, execution.stream);
                        });
}

}  // namespace lamina::cuda
