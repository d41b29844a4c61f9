#include "lamina/cpu/conv2d/bf16/pair.h"

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/bf16/convolution.h"
#include "lamina/cpu/conv2d/bf16/depthwise.h"
#include "lamina/cpu/conv2d/bf16/kernels.h"
#include "lamina/kernel/make_operator.h"

namespace lamina::cpu::bf16 {
namespace {

using detail::ceil_div;

constexpr Format narrow = {DType::bf16, Layout::nhwc};

View between(const ConvGeometry& g) {
  return {.shape = {g.batch, g.out_channels, g.out_height, g.out_width}, .format = narrow};
}

/// How the rows of the second's outputs are divided into tasks.
struct Division {
  std::int64_t bands = 1;  // of an image
  int rows = 0;            // of what lies between, at most of a band

  Division(const ConvPairProblem& problem, std::int64_t cache, int threads) {
    const ConvGeometry& g = problem.second.geometry;
    const std::int64_t reach = std::int64_t{g.kernel_height - 1} * g.dilation_height + 1;
    const std::int64_t most = cache / 4 / (std::int64_t{g.in_width} * g.in_channels * 2);
    const std::int64_t tall = std::max<std::int64_t>(1, (most - reach) / g.stride_height + 1);
    bands = ceil_div<std::int64_t>(g.out_height, tall);
    while (bands < g.out_height && g.batch * bands % threads != 0) ++bands;
    const std::int64_t outputs = ceil_div<std::int64_t>(g.out_height, bands);
    rows = static_cast<int>(std::min<std::int64_t>(g.in_height, (outputs - 1) * g.stride_height + reach));
  }
};

/// Of what lies between.
struct Rows {
  std::int64_t first, count;
};

Rows rows_of_band(const ConvGeometry& g, std::int64_t first, std::int64_t last) {
  const std::int64_t reach = std::int64_t{g.kernel_height - 1} * g.dilation_height + 1;
  const std::int64_t begin = std::clamp<std::int64_t>(first * g.stride_height - g.padding_height, 0, g.in_height);
  const std::int64_t end =
      std::clamp<std::int64_t>((last - 1) * g.stride_height - g.padding_height + reach, begin, g.in_height);
  return {begin, end - begin};
}

class Pair {
 public:
  Pair(const ConvPairProblem& problem, const Preparation& p)
      : engine_(best_engine(p.device)),
        division_(problem, engine_.cache, p.threads),
        first_(problem.first.geometry, engine_, p.input().format, 1, false,
               division_.rows * (pixelwise(problem.first.geometry) ? problem.first.geometry.out_width : 1)),
        second_geometry_(problem.second.geometry),
        second_(problem.second, p),
        epilogue_(row_epilogue(problem.first.epilogue, p.device)),
        weight_(Shape{first_.packed_size()}, DType::bf16),
        bias_(Shape{first_.bias_size()}),
        input_pitch_(p.input().channels) {
    pack_weights(first_, detail::floats(problem.first.weight), static_cast<std::uint16_t*>(weight_.raw()));
    pack_bias(first_, problem.first.bias.defined() ? detail::floats(problem.first.bias) : nullptr,
              detail::floats(bias_));
  }

  std::size_t workspace_bytes() const { return rows_bytes() + first_.workspace(1) + second_.workspace_bytes(); }
  std::size_t parameters() const { return weight_.bytes() + bias_.bytes() + second_.parameters(); }
  std::string description() const {
    return detail::concat("bf16: ", engine_.what, ", ", engine_.positions, " pixels x ", engine_.filters,
                          " filters, then ", second_.description(), ", ", division_.rows, " rows at a time");
  }

  void operator()(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const {
    const ConvGeometry& g = second_geometry_;
    execution.pool->parallel_for(g.batch * division_.bands, [&](std::int64_t index, int worker) {
      std::byte* const between =
          static_cast<std::byte*>(execution.workspace) + static_cast<std::size_t>(worker) * workspace_bytes();
      std::byte* const own = between + rows_bytes();
      const std::int64_t image = index / division_.bands, band = index % division_.bands;
      const std::int64_t first = g.out_height * band / division_.bands;
      const std::int64_t last = g.out_height * (band + 1) / division_.bands;
      const Rows rows = rows_of_band(g, first, last);
      if (rows.count > 0) {
        convolve_rows(first_,
                      {.input = inputs[0].raw(),
                       .weight = static_cast<const std::uint16_t*>(weight_.raw()),
                       .bias = detail::floats(bias_),
                       .output = between,
                       .input_pitch = input_pitch_},
                      epilogue_, image, rows.first, rows.count, own);
      }
      const Depthwise::Tensors tensors = {.input = reinterpret_cast<const bfloat16*>(between),
                                          .first_row = image * g.in_height + rows.first,
                                          .output = static_cast<std::byte*>(outputs[0].raw())};
      for (std::int64_t row = first; row < last; ++row) {
        second_.run_row(tensors, image, row, own + first_.workspace(1));
      }
    });
  }

 private:
  std::size_t rows_bytes() const {
    const std::int64_t bytes =
        std::int64_t{division_.rows} * second_geometry_.in_width * second_geometry_.in_channels * 2;
    return static_cast<std::size_t>(detail::round_up<std::int64_t>(bytes, 64));
  }

  const Engine& engine_;
  Division division_;
  Layer first_;
  ConvGeometry second_geometry_;
  Depthwise second_;
  RowEpilogue epilogue_;
  Tensor weight_, bias_;
  std::int64_t input_pitch_;
};

/// Pixels that a tile of positions reads even if it has fewer.
constexpr int least_width = 16;

}  // namespace

bool takes_pair(const ConvPairProblem& problem, const Preparation& p) {
  const ConvGeometry& first = problem.first.geometry;
  if (!p.algorithm.empty() || p.inputs.size() != 1 || p.output().is_slice() || p.output().format != narrow)
    return false;
  if (problem.first.scaled || first.groups != 1 || first.out_width < least_width) return false;
  const View middle = between(first);
  Preparation one = p, two = p;
  one.outputs = two.inputs = {&middle, 1};
  const Engine& engine = best_engine(p.device);
  const bool convolves = engine.unit == Unit::amx   ? takes<Unit::amx>(problem.first, one)
                         : engine.unit == Unit::dot ? takes<Unit::dot>(problem.first, one)
                                                    : takes<Unit::multiply_add>(problem.first, one);
  if (!convolves || !takes_depthwise(problem.second, two)) return false;
  // Worth while if the caches of the threads do not hold all of it.
  return detail::bytes_of(middle.shape, narrow) >
         static_cast<std::size_t>(p.threads) * static_cast<std::size_t>(engine.cache) / 2;
}

std::unique_ptr<Operator> prepare_pair(const ConvPairProblem& problem, const Preparation& p) {
  Pair pair(problem, p);
  const std::string description = pair.description();
  const detail::OperatorMemory memory = {.workspace = pair.workspace_bytes() * static_cast<std::size_t>(p.threads),
                                         .parameters = pair.parameters()};
  return detail::make_operator(description, memory, std::move(pair));
}

}  // namespace lamina::cpu::bf16
