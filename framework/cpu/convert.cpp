#include "lamina/cpu/convert.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cpu/array/blocks.h"
#include "lamina/cpu/conv2d/bf16/moves.h"
#include "lamina/kernel/make_operator.h"

namespace lamina::cpu {
namespace {

// Of a tile that is turned in the L1 cache.
constexpr std::int64_t tile_channels = 32, tile_size = 2048;
constexpr std::int64_t chunk = block<float> * 8;

/// The same order in both.
void convert_in_place(std::int64_t count, DType from, const std::byte* input, DType to, std::byte* output,
                      ThreadPool& pool) {
  const auto in_size = static_cast<std::int64_t>(size_of(from)), out_size = static_cast<std::int64_t>(size_of(to));
  pool.parallel_for(detail::ceil_div(count, chunk), [=](std::int64_t task, int) {
    alignas(64) float values[static_cast<std::size_t>(block<float>)];
    const std::int64_t first = task * chunk, end = std::min(count, first + chunk);
    const auto bytes = static_cast<std::size_t>((end - first) * in_size);
    if (from == to) std::memcpy(output + first * out_size, input + first * in_size, bytes);
    for (std::int64_t i = from == to ? end : first; i < end; i += block<float>) {
      const std::int64_t n = std::min(block<float>, end - i);
      load(from, input + i * in_size, values, n);
      store(to, values, output + i * out_size, n);
    }
  });
}

}  // namespace

void convert(const Activation& a, Format from, const void* input, Format to, void* output, ThreadPool& pool) {
  const auto* in = static_cast<const std::byte*>(input);
  auto* out = static_cast<std::byte*>(output);
  if (a.size() == 0) return;
  if (from.layout == to.layout || a.channels == 1 || a.pixels == 1) {
    return convert_in_place(a.size(), from.dtype, in, to.dtype, out, pool);
  }
  // Rows are channels on one side and pixels on the other.
  const bool planes = from.layout == Layout::nchw;
  const std::int64_t rows = planes ? a.channels : a.pixels, columns = planes ? a.pixels : a.channels;
  const std::int64_t channels = std::min(tile_channels, a.channels), pixels = tile_size / channels;
  const std::int64_t height = planes ? channels : pixels, width = planes ? pixels : channels;
  const std::int64_t down = detail::ceil_div(rows, height), across = detail::ceil_div(columns, width);
  const auto in_size = static_cast<std::int64_t>(size_of(from.dtype)),
             out_size = static_cast<std::int64_t>(size_of(to.dtype));
  pool.parallel_for(a.images * down * across, [=](std::int64_t task, int) {
    const std::int64_t image = task / (down * across) * rows * columns;
    const std::int64_t row = task / across % down * height, column = task % across * width;
    const std::int64_t tall = std::min(height, rows - row), wide = std::min(width, columns - column);
    const std::byte* const source = in + (image + row * columns + column) * in_size;
    std::byte* const target = out + (image + column * rows + row) * out_size;
    if (from.dtype == to.dtype) return turn(source, columns, tall, wide, target, rows, size_of(from.dtype));
    alignas(64) float values[tile_size], turned[tile_size];
    for (std::int64_t r = 0; r < tall; ++r) load(from.dtype, source + r * columns * in_size, values + r * wide, wide);
    turn(reinterpret_cast<const std::byte*>(values), wide, tall, wide, reinterpret_cast<std::byte*>(turned), tall,
         sizeof(float));
    if (tall == rows) return store(to.dtype, turned, target, wide * tall);
    for (std::int64_t c = 0; c < wide; ++c) store(to.dtype, turned + c * tall, target + c * rows * out_size, tall);
  });
}

namespace {

/// To nhwc; three planes have vectors of their own.
void interleave(const bf16::Moves& moves, const Activation& a, const float* from, float* to, ThreadPool& pool) {
  if (a.channels != 3) return convert(a, {}, from, {DType::f32, Layout::nhwc}, to, pool);
  constexpr std::int64_t piece = 8192;
  const std::int64_t pieces = detail::ceil_div(a.pixels, piece);
  pool.parallel_for(a.images * pieces, [&](std::int64_t task, int) {
    const std::int64_t image = task / pieces * 3 * a.pixels, first = task % pieces * piece;
    moves.interleave_f32(from + image + first, a.pixels, 3, std::min(piece, a.pixels - first), to + image + 3 * first);
  });
}

}  // namespace

std::unique_ptr<Operator> through_pixels(
    const Preparation& p, bool turns_back,
    const std::function<std::unique_ptr<Operator>(const Preparation& inner, std::int64_t images)>& prepare) {
  constexpr Format pixels = {DType::f32, Layout::nhwc};
  const std::int64_t batch = p.input().shape[0];
  std::int64_t images = turns_back ? std::min<std::int64_t>(batch, p.threads) : batch;
  while (images > 1 && batch % images != 0) --images;
  View from = p.input(), to = p.output();
  from.shape.set(0, images), to.shape.set(0, images);
  from.format = pixels;
  if (turns_back) to.format = pixels;
  Preparation inner = p;
  inner.inputs = {&from, 1}, inner.outputs = {&to, 1};
  inner.algorithm = {}, inner.finding = nullptr;  // which are not about what is prepared
  std::shared_ptr<const Operator> op = prepare(inner, images);
  const Activation in = detail::activation_of(from.shape), out = detail::activation_of(to.shape);
  const auto floats_of = [](const Activation& a) { return detail::round_up(a.size(), std::int64_t{16}); };
  const std::int64_t in_floats = floats_of(in), own = in_floats + (turns_back ? floats_of(out) : 0);
  return detail::make_operator(
      detail::concat("from planes, ", op->description()),
      {.workspace = static_cast<std::size_t>(own) * sizeof(float) + op->workspace_bytes()},
      [=, &moves = best_kernel(bf16::moves(), p.device)](std::span<const Tensor> inputs, std::span<Tensor> outputs,
                                                         const Execution& execution) {
        auto* const workspace = static_cast<float*>(execution.workspace);
        Execution rest = execution;
        rest.workspace = workspace + own;
        const Tensor x = Tensor::borrow(workspace, from.shape, DType::f32);
        const float* input = detail::floats(inputs[0]);
        float* output = detail::floats(outputs[0]);
        for (std::int64_t n = 0; n < batch; n += images, input += in.size(), output += out.size()) {
          Tensor y = Tensor::borrow(turns_back ? workspace + in_floats : output, to.shape, DType::f32);
          interleave(moves, in, input, workspace, *execution.pool);
          op->run({&x, 1}, {&y, 1}, rest);
          if (turns_back) convert(out, pixels, y.raw(), {}, output, *execution.pool);
        }
      });
}

}  // namespace lamina::cpu
