#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/mma/gathered/choice.h"
#include "lamina/cuda/conv2d/mma/mma.h"
#include "lamina/cuda/runtime/launched.h"
#include "lamina/cuda/tensor_core/packing.h"
#include "lamina/kernel/rules/patches.h"

namespace lamina::cuda::mma::gathered {
namespace {

using lamina::detail::ceil_div;

/// The output may be a slice of channels of another image.
bool formats_fit(const ConvGeometry& g, const Preparation& p) {
  const Format in = p.input().format, out = p.output().format;
  if (lamina::detail::turns_few_channels(g, p)) return false;
  const auto known = [&](DType type) { return type == DType::f32 || type == storage_type(p.precision); };
  return known(in.dtype) && known(out.dtype) && !p.input().is_slice() &&
         (out.layout == lamina::Layout::nhwc || g.out_pixels() == 1);
}

/// A convolution on its way to the device.
struct Gathered {
  ConvGeometry geometry;  // as it is
  Format input;
  Precision precision;
  bool adds = false;
  Product product;
  Choice choice;
  Arguments args;  // all but addresses, and what depends on how many images there are
  Constants constants;

  std::size_t staged_bytes() const { return product.staged_bytes(choice.images); }
  std::size_t workspace_bytes() const { return staged_bytes() + partial_bytes(geometry, choice.images, choice.splits); }

  /// `images` images.
  void launch(std::int64_t images, const void* from, const void* residual, void* to, unsigned char* workspace,
              Stream stream) const {
    Arguments a = args;
    a.geometry.batch = images;
    a.pixels = static_cast<int>(images * geometry.out_pixels());
    a.n_tiles = ceil_div(a.pixels, choice.tile.block_n);
    a.by.n_tiles = Divider(a.n_tiles);
    a.tiles = static_cast<unsigned>(tile_count(geometry, images, choice.tile, choice.splits));
    a.input = product.in_place ? from : workspace;
    a.output = to, a.finish.residual = residual;
    a.partial = reinterpret_cast<float*>(workspace + staged_bytes());
    if (!product.in_place) {
      stage_channels_last(geometry, images, input, from, storage_type(precision), product.layout, product.fold,
                          workspace, static_cast<cudaStream_t>(stream));
    }
    void* pointers[] = {&a};
    launch_kernel(choice.tile.kernel,
                  of_blocks(std::min<std::int64_t>(a.tiles, choice.blocks), choice.tile.threads,
                            static_cast<std::int64_t>(choice.tile.shared_bytes)),
                  stream, pointers);
    if (a.splits == 1) return;
    const std::int64_t quads = std::int64_t{a.pixels} * geometry.groups * a.quads;
    launch_kernel(choice.reduce, of_blocks(ceil_div<std::int64_t>(quads, reduce_threads), reduce_threads), stream,
                  pointers);
  }

  /// All images, as many at a time as the workspace has room for.
  void operator()(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const {
    const DeviceGuard guard(constants.device());
    // From image to image.
    const auto in = static_cast<std::size_t>(geometry.in_pixels() * geometry.in_channels) * size_of(input.dtype),
               out = static_cast<std::size_t>(geometry.out_pixels() * args.out_pitch) * size_of(args.output_type);
    const auto at = [](const void* images, std::int64_t image, std::size_t bytes) {
      return static_cast<const unsigned char*>(images) + static_cast<std::size_t>(image) * bytes;
    };
    for (std::int64_t first = 0; first < geometry.batch; first += choice.images) {
      launch(std::min(choice.images, geometry.batch - first), at(inputs[0].raw(), first, in),
             adds ? at(inputs[1].raw(), first, out) : nullptr,
             static_cast<unsigned char*>(outputs[0].raw()) + static_cast<std::size_t>(first) * out,
             static_cast<unsigned char*>(execution.workspace), execution.stream);
    }
  }
};

}  // namespace

bool takes(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  return p.device.architecture >= 80 && finish_takes(problem.epilogue, p) && formats_fit(g, p) &&
         g.kernel_height <= max_kernel && g.kernel_width <= max_kernel &&
         product_of(g, p).images_per_launch(p.workspace_limit) > 0;
}

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const Product product = product_of(g, p);
  const Layout& layout = product.layout;
  const Choice choice = choose(product, p);
  const Tile& tile = choice.tile;
  reserve_shared_memory(p.device.device.index, tile.kernel, p.device.shared_bytes);

  Constants constants(p.device.device.index);
  std::vector<FilterRange> filters;
  const auto packed =
      pack_weights(g, product.fold, layout, p.precision, tile.block_m, lamina::detail::floats(problem.weight), filters);
  const View& out = p.output();
  const bool adds = problem.epilogue.reads_operands();
  const int out_pitch = static_cast<int>(out.is_slice() ? out.channels : g.out_channels);
  const int group_filters = g.group_out_channels(), m_tiles = ceil_div(group_filters, tile.block_m);
  const std::size_t aligned = adds ? std::min(out.alignment, p.inputs[1].alignment) : out.alignment;
  const ConvGeometry& multiplied = product.geometry;
  const Arguments args = {
      .geometry = multiplied,
      .weight = constants.add(packed),
      .bias = problem.bias.defined() ? constants.add(padded_biases(problem.bias, g.out_channels)) : nullptr,
      .filters = constants.add(filters),
      .taps = constants.add(make_taps(multiplied, layout)),
      .output_type = out.format.dtype,
      .finish = finish_of(problem.epilogue, out.format.dtype),
      .out_pitch = out_pitch,
      .out_in_eights = group_filters % 8 == 0 && out_pitch % 8 == 0 && aligned % 16 == 0,
      .group_out_channels = group_filters,
      .quads = ceil_div(group_filters, 4),
      .block_m = tile.block_m,
      .m_tiles = m_tiles,
      .by = {.m_tiles = Divider(m_tiles),
             .n_tiles = {},
             .groups = Divider(multiplied.groups),
             .plane = Divider(multiplied.out_pixels()),
             .out_width = Divider(multiplied.out_width),
             .dilation_height = Divider(multiplied.dilation_height),
             .dilation_width = Divider(multiplied.dilation_width)},
      .steps = layout.steps,
      .steps_per_split = ceil_div(layout.steps, choice.splits),
      .splits = choice.splits,
      .unit_elements = layout.unit_elements,
      .units_per_pixel = layout.units_per_pixel,
      .units_per_group = layout.units_per_group,
      .folded_kernel = product.fold.folded ? g.kernel_width : 0,
  };
  const Gathered it = {g, p.input().format, p.precision, adds, product, choice, args, constants};
  return lamina::detail::make_operator(
      lamina::detail::concat("implicit_gemm (mma.sync, ", name(p.precision), "): ", tile.block_m, " filters x ",
                             tile.block_n, " pixels per block, K in ", product.layout.steps, " steps of 128 bytes",
                             choice.splits > 1 ? lamina::detail::concat(" over ", choice.splits, " splits") : "",
                             product.in_place ? "" : ", input staged", ", ", (tile.shared_bytes + 1023) / 1024,
                             " KB shared memory"),
      {.workspace = it.workspace_bytes()}, it);
}

}  // namespace lamina::cuda::mma::gathered
