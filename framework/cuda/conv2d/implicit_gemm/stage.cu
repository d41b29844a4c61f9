// Staging for the implicit GEMM: [N, C, H, W], or [N, H, W, C] whose channels fill no units, becomes
// [N, H, W, groups, padded channels], rounded to the operand type.
//
// The channels of a pixel then lie together, so that one cp.async of the product moves up to 16 bytes of them, and one
// pass of rounding here replaces one per tap there. It reads the input once and writes it once: 2 to 10 % of the time
// of the product it feeds.
// A thread owns one unit: unit_elements channels of one pixel, at most 16 bytes. A warp owns 32 / a pixels x a units,
// a = 1, 2 or 4 by how many units there are: with a = 4 it reads 32-byte pieces of 4 * unit_elements planes and writes
// 64-byte pieces of 8 pixels, so both sides move whole sectors without a detour through shared memory.
// Shared memory: none. Preconditions: images * H * W * units below 2^32.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/implicit_gemm/arguments.h"
#include "lamina/cuda/runtime/check.h"

namespace lamina::cuda::implicit_gemm {
namespace {

constexpr int stage_threads = 256;

struct KeepF32 {
  using Input = float;
  using Operand = float;
  __device__ static Operand convert(Input x) { return x; }
};

struct RoundToTf32 : KeepF32 {
  __device__ static Operand convert(Input x) { return __uint_as_float(round_to_tf32(__float_as_uint(x))); }
};

struct RoundToF16 {
  using Input = float;
  using Operand = __half;
  __device__ static Operand convert(Input x) { return __float2half_rn(x); }
};

struct RoundToBf16 {
  using Input = float;
  using Operand = __nv_bfloat16;
  __device__ static Operand convert(Input x) { return __float2bfloat16_rn(x); }
};

struct Keep16Bits {
  using Input = std::uint16_t;
  using Operand = std::uint16_t;
  __device__ static Operand convert(Input x) { return x; }
};

struct StageArguments {
  const void* input = nullptr;  // [N, C, H, W] or [N, H, W, C]
  void* staged = nullptr;       // [N, H, W, groups, units_per_group * unit_elements]
  unsigned channels = 0, group_channels = 0;
  unsigned plane = 0;                         // H * W
  unsigned from_channel = 0, from_pixel = 0;  // to the next, in elements
  unsigned pixels = 0;                        // N * H * W
  unsigned unit_elements = 0, units_per_group = 0, units = 0;
  unsigned units_across = 1;                        // a warp
  unsigned width = 0, folded_width = 0, shift = 0;  // of a row; 0: nothing is folded
};

/// The unit of 16 bytes that pair `pixel` becomes; see Fold.
template <class Conversion, class Operand, int size>
__device__ __forceinline__ void load_pair(const StageArguments& args, unsigned pixel, Operand (&element)[size]) {
  const unsigned line = pixel / args.folded_width, height = args.plane / args.folded_width;
  const unsigned image = line / height, y = line - image * height;
  const auto* source = static_cast<const typename Conversion::Input*>(args.input) +
                       static_cast<std::size_t>(image) * args.channels * height * args.width;
#pragma unroll
  for (unsigned i = 0; i < size; ++i) {
    const unsigned channel = i % Fold::channels;
    // Before the row it wraps around to what no row is as wide as.
    const unsigned x = (pixel - line * args.folded_width) * Fold::pixels + i / Fold::channels - args.shift;
    if (channel < args.channels && x < args.width) {
      element[i] = Conversion::convert(source[static_cast<std::size_t>(channel) * args.from_channel +
                                              static_cast<std::size_t>(y * args.width + x) * args.from_pixel]);
    }
  }
}

template <class Conversion>
__global__ void __launch_bounds__(stage_threads) stage_channels_last_kernel(StageArguments args) {
  using Operand = typename Conversion::Operand;
  constexpr unsigned largest_unit = 16 / sizeof(Operand);
  const unsigned pixels_across = 32 / args.units_across;
  const unsigned unit_blocks = (args.units + args.units_across - 1) / args.units_across;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned pixel =
      (blockIdx.x / unit_blocks * (stage_threads / 32) + warp) * pixels_across + lane % pixels_across;
  const unsigned unit = blockIdx.x % unit_blocks * args.units_across + lane / pixels_across;
  if (pixel >= args.pixels || unit >= args.units) return;

  union {
    Operand element[largest_unit];
    uint4 chunk;
  } value{.chunk = {0, 0, 0, 0}};
  if constexpr (sizeof(Operand) == 2) {
    if (args.folded_width != 0) {
      load_pair<Conversion>(args, pixel, value.element);
      static_cast<uint4*>(args.staged)[pixel] = value.chunk;
      return;
    }
  }
  const unsigned image = pixel / args.plane;
  const unsigned group = unit / args.units_per_group;
  const unsigned channel = (unit - group * args.units_per_group) * args.unit_elements;
  const auto* source = static_cast<const typename Conversion::Input*>(args.input) +
                       static_cast<std::size_t>(image) * args.channels * args.plane +
                       static_cast<std::size_t>(group * args.group_channels + channel) * args.from_channel +
                       static_cast<std::size_t>(pixel - image * args.plane) * args.from_pixel;
#pragma unroll
  for (unsigned i = 0; i < largest_unit; ++i) {
    if (i < args.unit_elements && channel + i < args.group_channels) {
      value.element[i] = Conversion::convert(source[static_cast<std::size_t>(i) * args.from_channel]);
    }
  }
  const std::size_t index = static_cast<std::size_t>(pixel) * args.units + unit;
  switch (args.unit_elements * sizeof(Operand)) {
    case 16: static_cast<uint4*>(args.staged)[index] = value.chunk; break;
    case 8: static_cast<uint2*>(args.staged)[index] = {value.chunk.x, value.chunk.y}; break;
    default: static_cast<unsigned*>(args.staged)[index] = value.chunk.x;
  }
}

template <class Conversion>
void launch(const StageArguments& args, cudaStream_t stream) {
  const unsigned pixels_per_block = stage_threads / args.units_across;
  const unsigned blocks =
      lamina::detail::ceil_div(args.pixels, pixels_per_block) * lamina::detail::ceil_div(args.units, args.units_across);
  stage_channels_last_kernel<Conversion><<<blocks, stage_threads, 0, stream>>>(args);
  check_launch();
}

}  // namespace

void stage_channels_last(const ConvGeometry& geometry, std::int64_t images, Precision precision, Format input_format,
                         const void* input, void* staged, const Fold& fold, unsigned unit_elements,
                         unsigned units_per_group, cudaStream_t stream) {
  StageArguments args;
  args.input = input;
  args.staged = staged;
  args.channels = static_cast<unsigned>(geometry.in_channels);
  args.group_channels = static_cast<unsigned>(geometry.group_in_channels());
  args.plane = static_cast<unsigned>(geometry.in_pixels());
  if (fold.folded) {
    args.width = static_cast<unsigned>(geometry.in_width), args.shift = static_cast<unsigned>(fold.shift);
    args.folded_width = lamina::detail::ceil_div(args.width + args.shift, static_cast<unsigned>(Fold::pixels));
    args.plane = static_cast<unsigned>(geometry.in_height) * args.folded_width;
  }
  args.pixels = static_cast<unsigned>(images) * args.plane;
  const bool nhwc = input_format.layout == lamina::Layout::nhwc;
  args.from_channel = nhwc ? 1 : static_cast<unsigned>(geometry.in_pixels());
  args.from_pixel = nhwc ? args.channels : 1;
  args.unit_elements = unit_elements;
  args.units_per_group = units_per_group;
  args.units = units_per_group * static_cast<unsigned>(geometry.groups);
  args.units_across = args.units >= 4 ? 4 : args.units >= 2 ? 2 : 1;
  if (input_format.dtype != DType::f32) return launch<Keep16Bits>(args, stream);
  switch (precision) {
    case Precision::fp32: return launch<KeepF32>(args, stream);
    case Precision::tf32: return launch<RoundToTf32>(args, stream);
    case Precision::fp16: return launch<RoundToF16>(args, stream);
    case Precision::bf16: return launch<RoundToBf16>(args, stream);
  }
}

}  // namespace lamina::cuda::implicit_gemm
