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

bool formats_fit(const Preparation& p) {
  const auto fits = [&p](Format format) {
    return format.layout == lamina::Layout::nchw &&
           (format.dtype == DType::f32 || format.dtype == storage_type(p.precision));
  };
  return fits(p.input().format) && fits(p.output().format);
}

class ImplicitGemm final : public Operator {
 public:
  ImplicitGemm(const ConvProblem& problem, const Preparation& preparation)
      : device_(preparation.device.device.index),
        geometry_(problem.geometry),
        precision_(preparation.precision),
        input_(preparation.input().format.dtype),
        output_(preparation.output().format.dtype),
        relu_(problem.epilogue.relu()),
        layout_(make_layout(geometry_, precision_)),
        choice_(choose(geometry_, preparation, layout_)) {
    reserve_shared_memory(device_, choice_.tile.kernel, static_cast<int>(choice_.tile.shared_bytes), choice_.carveout);

    std::vector<FilterRange> filters;
    const auto packed = pack_weights(geometry_, layout_, precision_, choice_.tile.block_m,
                                     lamina::detail::floats(problem.weight), filters);
    const auto taps = make_taps(geometry_, layout_);
    weight_ = Constant(device_, packed.data(), packed.size());
    taps_ = Constant(device_, taps.data(), taps.size() * sizeof(Position));
    filters_ = Constant(device_, filters.data(), filters.size() * sizeof(FilterRange));
    bias_ = Constant(device_, problem.bias.raw(), problem.bias.bytes());
  }

  std::string description() const override {
    return lamina::detail::concat(
        "implicit_gemm (", choice_.tile.instruction, ", ", name(precision_), "): ", choice_.tile.block_m, " filters x ",
        choice_.tile.block_n, " pixels per block, K in ", layout_.steps, " steps of 128 bytes",
        choice_.splits > 1 ? " over " : "", choice_.splits > 1 ? std::to_string(choice_.splits) + " splits" : "", ", ",
        (choice_.tile.shared_bytes + 1023) / 1024, " KB shared memory");
  }

  std::size_t workspace_bytes() const override {
    return staged_bytes() + partial_bytes(geometry_, choice_.images, choice_.splits);
  }

  std::size_t parameter_bytes() const override {
    return weight_.bytes() + taps_.bytes() + filters_.bytes() + bias_.bytes();
  }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    const DeviceGuard guard(device_);
    const auto input_image = static_cast<std::size_t>(geometry_.in_channels * geometry_.in_pixels());
    const auto output_image = static_cast<std::size_t>(geometry_.out_channels * geometry_.out_pixels());
    for (std::int64_t first = 0; first < geometry_.batch; first += choice_.images) {
      const auto skipped = static_cast<std::size_t>(first);
      run_slice(std::min(choice_.images, geometry_.batch - first),
                static_cast<const unsigned char*>(inputs[0].raw()) + skipped * input_image * size_of(input_),
                static_cast<unsigned char*>(outputs[0].raw()) + skipped * output_image * size_of(output_),
                static_cast<unsigned char*>(execution.workspace), execution.stream);
    }
  }

 private:
  std::size_t staged_bytes() const { return implicit_gemm::staged_bytes(geometry_, choice_.images, layout_); }

  void run_slice(std::int64_t images, const void* input, void* output, unsigned char* workspace, Stream stream) const {
    stage_channels_last(geometry_, images, precision_, input_, input, workspace, layout_.unit_elements,
                        layout_.units_per_group, static_cast<cudaStream_t>(stream));
    Arguments args{
        .geometry = geometry_,
        .input = workspace,
        .weight = weight_.data(),
        .bias = bias_.as<float>(),
        .filters = filters_.as<FilterRange>(),
        .taps = taps_.as<Position>(),
        .output = output,
        .partial = reinterpret_cast<float*>(workspace + staged_bytes()),
        .output_type = output_,
        .relu = relu_,
        .group_out_channels = geometry_.group_out_channels(),
        .pixels = static_cast<int>(images * geometry_.out_pixels()),
        .block_m = choice_.tile.block_m,
        .m_tiles = ceil_div(geometry_.group_out_channels(), choice_.tile.block_m),
        .steps = layout_.steps,
        .steps_per_split = ceil_div(layout_.steps, choice_.splits),
        .splits = choice_.splits,
        .unit_elements = layout_.unit_elements,
        .units_per_pixel = layout_.units_per_pixel,
        .units_per_group = layout_.units_per_group,
    };
    args.geometry.batch = images;
    args.n_tiles = ceil_div(args.pixels, choice_.tile.block_n);
    const auto blocks = static_cast<unsigned>(args.m_tiles) * static_cast<unsigned>(args.n_tiles) *
                        static_cast<unsigned>(geometry_.groups) * static_cast<unsigned>(choice_.splits);
    void* pointers[] = {&args};
    launch_kernel(
        choice_.tile.kernel,
        {.grid = dim3(blocks), .block = dim3(threads), .shared_bytes = choice_.tile.shared_bytes, .overlaps = false},
        stream, pointers);
    if (choice_.splits == 1) return;
    const dim3 grid(static_cast<unsigned>(ceil_div(args.pixels, threads)),
                    static_cast<unsigned>(std::min(geometry_.out_channels, 65535)));
    launch_kernel(choice_.reduce, {.grid = grid, .block = dim3(threads), .overlaps = false}, stream, pointers);
  }

  int device_;
  ConvGeometry geometry_;
  Precision precision_;
  DType input_, output_;
  bool relu_;
  Layout layout_;
  Choice choice_;
  Constant weight_, taps_, filters_, bias_;
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
  return !left_to_others(g, p) && p.device.architecture >= 80 && problem.epilogue.is_simple() && !problem.scaled &&
         formats_fit(p) && g.kernel_height <= max_kernel && g.kernel_width <= max_kernel &&
         images_per_launch(g, p.workspace_limit, make_layout(g, p.precision)) > 0;
}

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation) {
  return std::make_unique<ImplicitGemm>(problem, preparation);
}

}  // namespace lamina::cuda::implicit_gemm
