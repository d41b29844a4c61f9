// Staging for the implicit GEMM: [N, C, H, W], or [N, H, W, C] whose channels fill no units, becomes
// [N, H, W, groups, padded channels], rounded to the storage type.
//
// The channels of a pixel then lie together, so that one cp.async of the product moves up to 16 bytes of them, and one
// pass of rounding here replaces one per tap there. It reads the input once and writes it once: 2 to 10 % of the time
// of the product it feeds.
// A thread owns one unit: unit_elements channels of one pixel, or, where pixels are folded, of two, at most 16 bytes. A
// warp owns 32 / a pixels x a units, a = 1, 2 or 4 by how many units there are: with a = 4 it reads 32-byte pieces of
// 4 * unit_elements planes and writes 64-byte pieces of 8 pixels, so both sides move whole sectors without a detour
// through shared memory. Shared memory: none. Preconditions: images * H * W * units below 2^31.

#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/mma/gathered/layout.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/runtime/check.h"

namespace lamina::cuda::mma::gathered {
namespace {

constexpr int stage_threads = 256;

struct StageArguments {
  const void* input = nullptr;  // [N, C, H, W] or [N, H, W, C]
  void* staged = nullptr;       // [N, H, W or its pairs, groups, units_per_group * unit_elements]
  unsigned channels = 0, group_channels = 0, height = 0, width = 0;
  unsigned from_channel = 0, from_pixel = 0;  // to the next, in elements
  bool folded = false;                        // see Fold
  unsigned shift = 0;
  unsigned staged_width = 0, pixels = 0;  // of a row, of all images
  unsigned unit_elements = 0, units_per_group = 0, units = 0;
  unsigned units_across = 1;  // a warp
  Divider by_staged_width, by_height, by_units_per_group;
};

template <class From, class To>
__global__ void __launch_bounds__(stage_threads) stage_channels_last_kernel(StageArguments args) {
  constexpr unsigned largest_unit = 16 / sizeof(To);
  const unsigned pixels_across = 32 / args.units_across;
  const unsigned unit_blocks = (args.units + args.units_across - 1) / args.units_across;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned pixel =
      (blockIdx.x / unit_blocks * (stage_threads / 32) + warp) * pixels_across + lane % pixels_across;
  const unsigned unit = blockIdx.x % unit_blocks * args.units_across + lane / pixels_across;
  if (pixel >= args.pixels || unit >= args.units) return;

  const unsigned line = args.by_staged_width.quotient(pixel), image = args.by_height.quotient(line);
  const unsigned x = pixel - line * args.staged_width, y = line - image * args.height;
  const unsigned group = args.by_units_per_group.quotient(unit);
  const unsigned channel = (unit - group * args.units_per_group) * args.unit_elements;
  union {
    To element[largest_unit];
    uint4 chunk;
  } value{.chunk = {0, 0, 0, 0}};
  const auto* source = static_cast<const From*>(args.input) +
                       static_cast<std::size_t>(image) * args.channels * args.height * args.width +
                       static_cast<std::size_t>(group * args.group_channels) * args.from_channel;
#pragma unroll
  for (unsigned i = 0; i < largest_unit; ++i) {
    const unsigned c = args.folded ? i % Fold::channels : channel + i;
    // Before the row it wraps around to what no row is as wide as.
    const unsigned column = args.folded ? x * Fold::pixels + i / Fold::channels - args.shift : x;
    if (i < args.unit_elements && c < args.group_channels && column < args.width) {
      value.element[i] =
          from_f32<To>(to_f32(source[static_cast<std::size_t>(c) * args.from_channel +
                                     static_cast<std::size_t>(y * args.width + column) * args.from_pixel]));
    }
  }
  const std::size_t index = static_cast<std::size_t>(pixel) * args.units + unit;
  switch (args.unit_elements * sizeof(To)) {
    case 16: static_cast<uint4*>(args.staged)[index] = value.chunk; break;
    case 8: static_cast<uint2*>(args.staged)[index] = {value.chunk.x, value.chunk.y}; break;
    default: static_cast<unsigned*>(args.staged)[index] = value.chunk.x;
  }
}

}  // namespace

void stage_channels_last(const ConvGeometry& geometry, std::int64_t images, Format input_format, const void* input,
                         DType stored, const Layout& layout, const Fold& fold, void* staged, cudaStream_t stream) {
  using lamina::detail::ceil_div;
  const bool nhwc = input_format.layout == lamina::Layout::nhwc;
  StageArguments args;
  args.input = input, args.staged = staged;
  args.channels = static_cast<unsigned>(geometry.in_channels);
  args.group_channels = static_cast<unsigned>(geometry.group_in_channels());
  args.height = static_cast<unsigned>(geometry.in_height), args.width = static_cast<unsigned>(geometry.in_width);
  args.from_channel = nhwc ? 1 : args.height * args.width, args.from_pixel = nhwc ? args.channels : 1;
  args.folded = fold.folded, args.shift = static_cast<unsigned>(fold.shift);
  args.staged_width = fold.folded ? ceil_div(args.width + args.shift, static_cast<unsigned>(Fold::pixels)) : args.width;
  args.pixels = static_cast<unsigned>(images) * args.height * args.staged_width;
  args.unit_elements = layout.unit_elements, args.units = layout.units_per_pixel;
  args.units_per_group = layout.units_per_group;
  args.units_across = args.units >= 4 ? 4 : args.units >= 2 ? 2 : 1;
  args.by_staged_width = Divider(args.staged_width), args.by_height = Divider(args.height);
  args.by_units_per_group = Divider(layout.units_per_group);
  const unsigned blocks =
      ceil_div(args.pixels, stage_threads / args.units_across) * ceil_div(args.units, args.units_across);
  const auto launch = [&](auto kernel) {
    kernel<<<blocks, stage_threads, 0, stream>>>(args);
    check_launch();
  };
  with_element_type(stored, [&](auto* to) {
    using To = std::remove_pointer_t<decltype(to)>;
    if (input_format.dtype == DType::f32) {
      launch(stage_channels_last_kernel<float, To>);
    } else {
      launch(stage_channels_last_kernel<To, To>);
    }
  });
}

}  // namespace lamina::cuda::mma::gathered
