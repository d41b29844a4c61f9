#include "lamina/cuda/conv2d/implicit_gemm/implicit_gemm.h"

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/implicit_gemm/choice.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/patches.h"

namespace lamina::cuda::implicit_gemm {
namespace {

using lamina::detail::ceil_div;

/// The output may be a slice of channels of another image.
bool formats_fit(const ConvGeometry& g, const Preparation& p) {
  const Format in = p.input().format, out = p.output().format;
  const auto known = [&](DType type) { return type == DType::f32 || type == storage_type(p.precision); };
  return known(in.dtype) && known(out.dtype) && !p.input().is_slice() &&
         (out.layout == lamina::Layout::nhwc || g.out_pixels() == 1);
}

class ImplicitGemm final : public Operator {
 public:
  ImplicitGemm(const ConvProblem& problem, const Preparation& p)
      : device_(p.device.device.index),
        geometry_(problem.geometry),
        precision_(p.precision),
        input_(p.input().format),
        output_(p.output().format.dtype),
        adds_(problem.epilogue.reads_operands()),
        product_(product_of(geometry_, p)),
        choice_(choose(product_, p)) {
    const Layout& layout = product_.layout;
    reserve_shared_memory(device_, choice_.tile.kernel, p.device.shared_bytes);

    const float* weight = lamina::detail::floats(problem.weight);
    std::vector<float> folded_weight;
    if (product_.fold.folded) {
      folded_weight = fold_weights(geometry_, weight);
      weight = folded_weight.data();
    }
    std::vector<FilterRange> filters;
    const auto packed = pack_weights(product_.geometry, layout, precision_, choice_.tile.block_m, weight, filters);
    const auto taps = make_taps(product_.geometry, layout);
    weight_ = Constant(device_, packed.data(), packed.size());
    taps_ = Constant(device_, taps.data(), taps.size() * sizeof(Position));
    filters_ = Constant(device_, filters.data(), filters.size() * sizeof(FilterRange));
    bias_ = Constant(device_, problem.bias.raw(), problem.bias.bytes());

    const View& out = p.output();
    const int out_pitch = static_cast<int>(out.is_slice() ? out.channels : geometry_.out_channels);
    const int group_filters = geometry_.group_out_channels();
    const std::size_t aligned = adds_ ? std::min(out.alignment, p.inputs[1].alignment) : out.alignment;
    args_ = {
        .geometry = product_.geometry,
        .weight = weight_.data(),
        .bias = bias_.as<float>(),
        .filters = filters_.as<FilterRange>(),
        .taps = taps_.as<Position>(),
        .output_type = output_,
        .finish = finish_of(problem.epilogue, output_),
        .out_pitch = out_pitch,
        .out_in_eights = group_filters % 8 == 0 && out_pitch % 8 == 0 && aligned % 16 == 0,
        .group_out_channels = group_filters,
        .quads = ceil_div(group_filters, 4),
        .block_m = choice_.tile.block_m,
        .m_tiles = ceil_div(group_filters, choice_.tile.block_m),
        .by = {.m_tiles = Divider(ceil_div(group_filters, choice_.tile.block_m)),
               .n_tiles = {},
               .groups = Divider(product_.geometry.groups),
               .plane = Divider(product_.geometry.out_pixels()),
               .out_width = Divider(product_.geometry.out_width),
               .dilation_height = Divider(product_.geometry.dilation_height),
               .dilation_width = Divider(product_.geometry.dilation_width)},
        .steps = layout.steps,
        .steps_per_split = ceil_div(layout.steps, choice_.splits),
        .splits = choice_.splits,
        .unit_elements = layout.unit_elements,
        .units_per_pixel = layout.units_per_pixel,
        .units_per_group = layout.units_per_group,
        .folded_kernel = product_.fold.folded ? geometry_.kernel_width : 0,
    };
  }

  std::string description() const override {
    return lamina::detail::concat(
        "implicit_gemm (mma.sync, ", name(precision_), "): ", choice_.tile.block_m, " filters x ", choice_.tile.block_n,
        " pixels per block, K in ", product_.layout.steps, " steps of 128 bytes",
        choice_.splits > 1 ? lamina::detail::concat(" over ", choice_.splits, " splits") : std::string(),
        product_.in_place ? "" : ", input staged", ", ", (choice_.tile.shared_bytes + 1023) / 1024,
        " KB shared memory");
  }

  std::size_t workspace_bytes() const override {
    return staged_bytes() + partial_bytes(geometry_, choice_.images, choice_.splits);
  }

  std::size_t parameter_bytes() const override {
    return weight_.bytes() + taps_.bytes() + filters_.bytes() + bias_.bytes();
  }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    const DeviceGuard guard(device_);
    const auto image_bytes = [](std::int64_t pixels, int channels, DType type) {
      return static_cast<std::size_t>(pixels * channels) * size_of(type);
    };
    const std::size_t in_bytes = image_bytes(geometry_.in_pixels(), geometry_.in_channels, input_.dtype),
                      out_bytes = image_bytes(geometry_.out_pixels(), args_.out_pitch, output_);
    const auto at = [](const void* from, std::int64_t image, std::size_t bytes) {
      return static_cast<const unsigned char*>(from) + static_cast<std::size_t>(image) * bytes;
    };
    for (std::int64_t first = 0; first < geometry_.batch; first += choice_.images) {
      Arguments args = args_;
      args.geometry.batch = std::min(choice_.images, geometry_.batch - first);
      args.pixels = static_cast<int>(args.geometry.batch * geometry_.out_pixels());
      args.n_tiles = ceil_div(args.pixels, choice_.tile.block_n);
      args.by.n_tiles = Divider(args.n_tiles);
      args.input = at(inputs[0].raw(), first, in_bytes);
      args.output = static_cast<unsigned char*>(outputs[0].raw()) + static_cast<std::size_t>(first) * out_bytes;
      if (adds_) args.finish.residual = at(inputs[1].raw(), first, out_bytes);
      launch(args, static_cast<unsigned char*>(execution.workspace), execution.stream);
    }
  }

 private:
  std::size_t staged_bytes() const { return product_.staged_bytes(choice_.images); }

  void launch(Arguments& args, unsigned char* workspace, Stream stream) const {
    if (!product_.in_place) {
      stage_channels_last(geometry_, args.geometry.batch, precision_, input_, args.input, workspace, product_.fold,
                          args.unit_elements, args.units_per_group, static_cast<cudaStream_t>(stream));
      args.input = workspace;
    }
    args.partial = reinterpret_cast<float*>(workspace + staged_bytes());
    args.tiles = static_cast<unsigned>(args.m_tiles) * static_cast<unsigned>(args.n_tiles) *
                 static_cast<unsigned>(geometry_.groups) * static_cast<unsigned>(args.splits);
    const auto blocks = std::min(args.tiles, static_cast<unsigned>(choice_.blocks));
    void* pointers[] = {&args};
    launch_kernel(choice_.tile.kernel,
                  {.grid = dim3(blocks),
                   .block = dim3(static_cast<unsigned>(choice_.tile.threads)),
                   .shared_bytes = choice_.tile.shared_bytes},
                  stream, pointers);
    if (args.splits == 1) return;
    const std::int64_t quads = std::int64_t{args.pixels} * geometry_.groups * args.quads;
    launch_kernel(choice_.reduce,
                  {.grid = dim3(static_cast<unsigned>(ceil_div<std::int64_t>(quads, reduce_threads))),
                   .block = dim3(reduce_threads)},
                  stream, pointers);
  }

  int device_;
  ConvGeometry geometry_;
  Precision precision_;
  Format input_;
  DType output_;
  bool adds_;
  Product product_;
  Choice choice_;
  Constant weight_, taps_, filters_, bias_;
  Arguments args_;
};

/// On Hopper patches in 16 bits are for channels_last, the conversion of the picture included, unless this kernel is
/// asked for by name.
bool left_to_others(const ConvGeometry& g, const Preparation& p) {
  constexpr int whole = 8;  // channels that TMA steps by
  return p.device.wgmma && p.algorithm.empty() && size_of(storage_type(p.precision)) == 2 &&
         lamina::detail::is_patches(g) && g.in_channels * g.kernel_width % whole == 0 && g.out_channels % whole == 0;
}

}  // namespace

bool takes(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  // On Hopper it is for what the faster kernels leave, and what those fuse is not to end here.
  const bool fused =
      p.device.wgmma && p.algorithm.empty() ? problem.epilogue.is_simple() : finish_takes(problem.epilogue, p);
  return !left_to_others(g, p) && p.device.architecture >= 80 && fused && !problem.scaled && formats_fit(g, p) &&
         g.kernel_height <= max_kernel && g.kernel_width <= max_kernel &&
         product_of(g, p).images_per_launch(p.workspace_limit) > 0;
}

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation) {
  return std::make_unique<ImplicitGemm>(problem, preparation);
}

}  // namespace lamina::cuda::implicit_gemm
