// Elementwise work on codes. A thread owns 16 neighbours of the output, or 4 where channels are not whole packs of 16,
// and the first threads of the grid take the few that are left one by one. Codes are a byte each, so that it is
// instructions as much as memory that take the time: the few chains that networks have are compiled, not interpreted.
//
// Shared memory: of the table 8 KB, a copy for each lane in a bank of its own. Preconditions: fewer than 2^31 elements,
// but for the table; the output may be an operand of its size.

#include "lamina/cuda/eight_bits/elementwise.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lamina/cuda/divider.h"
#include "lamina/cuda/eight_bits/codes.cuh"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/epilogue_rules.h"

namespace lamina::cuda {
namespace {

constexpr int threads = 256, lanes = 32;
constexpr unsigned table_blocks = 2048;  // each fills its copies once
constexpr std::int64_t most = std::int64_t{1} << 31;

/// What the 16, 4 or 1 elements from `first` on are computed of.
template <class T>
struct One {
  const T* input;
  Meaning meaning;

  template <int n>
  __device__ void operator()(std::uint32_t first, float (&values)[n]) const {
    read_values(input + first, meaning, values);
  }
};

template <bool product>
struct Two {
  const std::uint8_t *input, *second;
  Meaning meaning, of_second;
  std::uint32_t channels, image_step;  ///< of the second; 0 channels: it lies as the output does
  Divider by_channels, by_image;

  template <int n>
  __device__ void operator()(std::uint32_t first, float (&values)[n]) const {
    std::uint32_t at = first;
    if (channels != 0) {
      at = first - by_channels.quotient(first) * channels + by_image.quotient(first) * image_step;
    }
    float others[n];
    read_values(input + first, meaning, values);
    read_values(second + at, of_second, others);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      values[j] = product ? __fmul_rn(values[j], others[j]) : __fadd_rn(values[j], others[j]);
    }
  }
};

struct Scaled {
  const std::uint8_t* input;
  Meaning meaning;
  const float *scale, *shift;   // [channels]
  std::uint32_t channels, gap;  ///< gap: of the input, between the channels of one pixel and those of the next
  Divider by_channels;
  bool relu;

  template <int n>
  __device__ void operator()(std::uint32_t first, float (&values)[n]) const {
    const std::uint32_t pixel = by_channels.quotient(first), channel = first - pixel * channels;
    float a[n], b[n];
    read_values(input + first + std::int64_t{gap} * pixel, meaning, values);
    read_values(scale + channel, {}, a);
    read_values(shift + channel, {}, b);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      values[j] = __fmaf_rn(values[j], a[j], b[j]);
      if (relu && values[j] < 0.0f) values[j] = 0.0f;  // NaN stays
    }
  }
};

template <class F>
__global__ void __launch_bounds__(threads)
    codes_kernel(const __grid_constant__ F f, const __grid_constant__ Results results, void* output, int width,
                 std::uint32_t count) {
  let_successor_start();
  wait_for_predecessor();
  const std::uint32_t thread = blockIdx.x * threads + threadIdx.x, all = gridDim.x * threads;
  const auto each = [&]<int n>(std::integral_constant<int, n>, std::uint32_t begin) {
    for (std::uint32_t i = begin + thread * n; i + n <= count; i += all * n) {
      float values[n];
      f(i, values);
      results.write(values, output, i);
    }
  };
  if (width == 16) each(std::integral_constant<int, 16>(), 0);
  if (width == 4) each(std::integral_constant<int, 4>(), 0);
  each(std::integral_constant<int, 1>(), width == 1 ? 0 : count - count % static_cast<std::uint32_t>(width));
}

struct Table {
  std::uint32_t words[64];
};

__global__ void __launch_bounds__(threads) table_kernel(const __grid_constant__ Table table, const std::uint8_t* input,
                                                        std::uint8_t* output, std::int64_t packs, std::int64_t count) {
  __shared__ std::uint32_t copies[64 * lanes];
  let_successor_start();
  for (unsigned i = threadIdx.x; i < 64 * lanes; i += threads) copies[i] = table.words[i / lanes];
  __syncthreads();
  wait_for_predecessor();
  const auto* mine = reinterpret_cast<const std::uint8_t*>(copies + threadIdx.x % lanes);
  const auto look = [&](std::uint32_t code) -> std::uint32_t { return mine[(code & 0xfcu) * lanes + (code & 3u)]; };
  const std::int64_t first = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = first; i < packs; i += step) {
    Codes<16> pack = reinterpret_cast<const Codes<16>*>(input)[i];
#pragma unroll
    for (std::uint32_t& word : pack.values) {
      word =
          look(word & 0xffu) | look(word >> 8 & 0xffu) << 8 | look(word >> 16 & 0xffu) << 16 | look(word >> 24) << 24;
    }
    reinterpret_cast<Codes<16>*>(output)[i] = pack;
  }
  for (std::int64_t i = packs * 16 + first; i < count; i += step) output[i] = static_cast<std::uint8_t>(look(input[i]));
}

template <class F>
void start(const F& f, const Results& results, void* output, std::int64_t count, std::uint64_t bits, Stream stream) {
  bits |= neighbours_of(output, results.dtype);
  const int width = bits % 16 == 0 ? 16 : bits % 4 == 0 ? 4 : 1;
  const std::int64_t work = std::max<std::int64_t>(count / width, count % width);
  launch_kernel(codes_kernel<F>, {.grid = dim3(grid_for(work, threads)), .block = dim3(threads)}, stream, f, results,
                output, width, static_cast<std::uint32_t>(count));
}

}  // namespace

void look_up(int device, const std::array<std::uint8_t, 256>& table, const void* input, void* output,
             std::int64_t count, Stream stream) {
  if (count == 0) return;
  const DeviceGuard guard(device);
  Table words;
  std::memcpy(words.words, table.data(), table.size());
  const std::int64_t packs = aligned_to_16(input) && aligned_to_16(output) ? count / 16 : 0;
  const unsigned grid = std::min(grid_for(packs > 0 ? packs : count, threads), table_blocks);
  launch_kernel(table_kernel, {.grid = dim3(grid), .block = dim3(threads)}, stream, words,
                static_cast<const std::uint8_t*>(input), static_cast<std::uint8_t*>(output), packs, count);
}

bool pointwise_of_codes(const PointwiseChain& chain, std::span<const detail::WalkAxis> axes,
                        std::span<const View> views, const View& result, std::span<const Tensor> inputs, Tensor& output,
                        Stream stream) {
  const std::int64_t count = output.numel();
  if (count >= most || (!detail::is_code(result) && !is_activation(output.dtype()))) return false;
  const auto whole = [&](std::size_t i) {
    return std::ranges::all_of(axes, [&](const auto& axis) { return axis.strides[i + 1] == axis.strides[0]; });
  };
  const auto codes = [&](std::size_t i) { return static_cast<const std::uint8_t*>(inputs[i].raw()); };
  if (inputs.size() == 1) {
    const auto passes = [](const PointwiseStep& step) { return step.function == Pointwise::identity; };
    const DType dtype = inputs[0].dtype();
    if (!whole(0) || !std::ranges::all_of(chain, passes)) return false;
    const auto one = [&]<class T>(const T* input) {
      start(One<T>{input, Meaning(views[0])}, Results(result), output.raw(), count, neighbours_of(input, dtype),
            stream);
    };
    if (detail::is_code(views[0])) return one(codes(0)), true;
    if (!is_activation(dtype)) return false;
    with_element_type(dtype, [&](auto* element) {
      one(static_cast<const std::remove_pointer_t<decltype(element)>*>(inputs[0].raw()));
    });
    return true;
  }
  const bool sum = !chain.empty() && chain[0].function == Pointwise::add;
  const bool product = !chain.empty() && chain[0].function == Pointwise::mul;
  const bool two = inputs.size() == 2 && (sum || product) && chain[0].operand == 1 && chain.size() <= 2;
  const auto ordinary = [](const View& view) { return detail::is_code(view) && view.quantization.scale < 1e15f; };
  if (!two || !std::ranges::all_of(views, ordinary) || !detail::is_code(result)) return false;
  const auto clamp = chain.size() == 1 ? detail::Bounds() : detail::clamp_of(chain[1]);
  Results results(result);
  if (!clamp || results.rounding.divides()) return false;
  const auto [low, high] = std::pair(results.rounding.low, results.rounding.high);
  results.rounding.low = std::clamp(clamp->low, low, high);
  results.rounding.high = std::clamp(clamp->high, low, high);
  const std::size_t first = whole(0) ? 0 : 1, second = 1 - first, rank = axes.size();
  if (!whole(first)) return false;
  std::int64_t channels = 0, image = 1, image_step = 0;
  if (!whole(second)) {  // images, pixels, channels; or, of one image, the last two
    const auto stride = [&](std::size_t axis) { return axes[axis].strides[second + 1]; };
    if (rank < 2 || rank > 3 || stride(rank - 1) != 1 || stride(rank - 2) != 0) return false;
    channels = axes[rank - 1].extent, image = rank == 3 ? axes[0].strides[0] : count;
    image_step = rank == 3 ? stride(0) : 0;
  }
  const auto start_two = [&]<bool is_product>(std::bool_constant<is_product>) {
    const Two<is_product> f = {.input = codes(first),
                               .second = codes(second),
                               .meaning = Meaning(views[first]),
                               .of_second = Meaning(views[second]),
                               .channels = static_cast<std::uint32_t>(channels),
                               .image_step = static_cast<std::uint32_t>(image_step),
                               .by_channels = Divider(channels),
                               .by_image = Divider(image)};
    const auto bits = static_cast<std::uint64_t>(channels | image_step);
    start(f, results, output.raw(), count,
          bits | neighbours_of(f.input, DType::u8) | neighbours_of(f.second, DType::u8), stream);
  };
  if (product) {
    start_two(std::true_type());
  } else {
    start_two(std::false_type());
  }
  return true;
}

void scale_and_shift_of_codes(int device, const View& view, const View& result, const void* input, const float* scale,
                              const float* shift, bool relu, void* output, Stream stream) {
  const std::int64_t count = view.shape.numel(), channels = view.shape[1], pitch = view.pixel_pitch();
  if (count == 0) return;
  const DeviceGuard guard(device);
  const auto* codes = static_cast<const std::uint8_t*>(input);
  const Scaled f = {codes,
                    Meaning(view),
                    scale,
                    shift,
                    static_cast<std::uint32_t>(channels),
                    static_cast<std::uint32_t>(pitch - channels),
                    Divider(channels),
                    relu};
  start(f, Results(result), output, count,
        neighbours_of(input, DType::u8) | static_cast<std::uint64_t>(channels | pitch), stream);
}

}  // namespace lamina::cuda
