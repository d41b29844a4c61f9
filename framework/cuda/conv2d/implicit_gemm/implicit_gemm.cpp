#include "lamina/cuda/conv2d/implicit_gemm/implicit_gemm.h"

#include <algorithm>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/implicit_gemm/choice.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/kernel/make_operator.h"

namespace lamina::cuda::implicit_gemm {
namespace {

using lamina::detail::ceil_div;
using lamina::detail::round_up;

constexpr std::int64_t most_blocks = std::numeric_limits<int>::max();
constexpr std::int64_t most_pixels = std::int64_t{1} << 30;  // of a launch: indices of pixels are ints
constexpr std::int64_t most_units = std::int64_t{1} << 31;   // of a launch: offsets in the staged input are 32 bits
constexpr std::size_t alignment = 256;

/// The output may be a slice of channels of another image.
bool formats_fit(const ConvGeometry& g, const Preparation& p) {
  const Format in = p.input().format, out = p.output().format;
  const auto known = [&](DType type) { return type == DType::f32 || type == storage_type(p.precision); };
  return known(in.dtype) && known(out.dtype) && !p.input().is_slice() &&
         (out.layout == lamina::Layout::nhwc || g.out_pixels() == 1);
}

/// Whether the kernel reads the activation as it is: its channels lie together, in whole units.
bool in_place(const ConvGeometry& g, const Preparation& p, const Layout& layout) {
  return p.input().format.dtype == storage_type(p.precision) &&
         (p.input().format.layout == lamina::Layout::nhwc || g.in_pixels() == 1) &&
         static_cast<unsigned>(g.group_in_channels()) % layout.unit_elements == 0;
}

std::int64_t staged_image_units(const ConvGeometry& geometry, const Layout& layout) {
  return geometry.in_pixels() * layout.units_per_pixel;
}

/// Images of one launch: all, or as many as the workspace, 32-bit offsets and the grid allow; 0 if not even one.
std::int64_t images_per_launch(const ConvGeometry& geometry, const Preparation& p, const Layout& layout) {
  const std::int64_t units = staged_image_units(geometry, layout);
  const std::size_t workspace = in_place(geometry, p, layout) ? std::size_t{1} << 62 : p.workspace_limit;
  const auto limit = static_cast<std::int64_t>(std::min(workspace, std::size_t{1} << 62) / alignment * alignment);
  // The smallest tile of all, 64 x 64, bounds the grid from above; a tile more covers what rounding up adds.
  const std::int64_t filter_tiles = ceil_div(geometry.group_out_channels(), 64) * std::int64_t{geometry.groups};
  const std::int64_t pixels = std::min(most_pixels, (most_blocks / filter_tiles - 1) * 64);
  const std::int64_t most =
      std::min({limit / layout.unit_bytes / units, most_units / units, pixels / geometry.out_pixels(), geometry.batch});
  return most < 1 ? 0 : ceil_div(geometry.batch, ceil_div(geometry.batch, most));
}

class ImplicitGemm final : public Operator {
 public:
  ImplicitGemm(const ConvProblem& problem, const Preparation& preparation)
      : device_(preparation.device.device.index),
        geometry_(problem.geometry),
        precision_(preparation.precision),
        input_(preparation.input().format),
        output_(preparation.output().format.dtype),
        out_pitch_(
            static_cast<int>(preparation.output().is_slice() ? preparation.output().channels : geometry_.out_channels)),
        out_in_quads_(geometry_.group_out_channels() % 4 == 0 && out_pitch_ % 4 == 0 &&
                      preparation.output().alignment % (4 * size_of(output_)) == 0),
        finish_(finish_of(problem.epilogue, output_)),
        adds_(problem.epilogue.reads_operands()),
        layout_(make_layout(geometry_, precision_)),
        in_place_(in_place(geometry_, preparation, layout_)),
        images_(images_per_launch(geometry_, preparation, layout_)) {
    choice_ = choose(geometry_, images_, preparation, layout_,
                     preparation.workspace_limit - std::min(preparation.workspace_limit, staged_bytes()));
    reserve_shared_memory(device_, choice_.tile.kernel, preparation.device.shared_bytes);

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
    return lamina::detail::concat("implicit_gemm (", choice_.tile.instruction, ", ", name(precision_),
                                  "): ", choice_.tile.block_m, " filters x ", choice_.tile.block_n,
                                  " pixels per block, K in ", layout_.steps, " steps of 128 bytes",
                                  in_place_ ? "" : ", staged", choice_.splits > 1 ? " over " : "",
                                  choice_.splits > 1 ? std::to_string(choice_.splits) + " splits" : "", ", ",
                                  (choice_.tile.shared_bytes + 1023) / 1024, " KB shared memory");
  }

  std::size_t workspace_bytes() const override {
    return staged_bytes() + partial_bytes(geometry_, images_, choice_.splits);
  }

  std::size_t parameter_bytes() const override {
    return weight_.bytes() + taps_.bytes() + filters_.bytes() + bias_.bytes();
  }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    const DeviceGuard guard(device_);
    const auto input_image = static_cast<std::size_t>(geometry_.in_channels * geometry_.in_pixels());
    const auto output_image = static_cast<std::size_t>(out_pitch_ * geometry_.out_pixels());
    const auto* residual = adds_ ? static_cast<const unsigned char*>(inputs[1].raw()) : nullptr;
    for (std::int64_t first = 0; first < geometry_.batch; first += images_) {
      const auto skipped = static_cast<std::size_t>(first);
      run_slice(std::min(images_, geometry_.batch - first),
                static_cast<const unsigned char*>(inputs[0].raw()) + skipped * input_image * size_of(input_.dtype),
                adds_ ? residual + skipped * output_image * size_of(output_) : nullptr,
                static_cast<unsigned char*>(outputs[0].raw()) + skipped * output_image * size_of(output_),
                static_cast<unsigned char*>(execution.workspace), execution.stream);
    }
  }

 private:
  std::size_t staged_bytes() const {
    if (in_place_) return 0;
    return round_up(static_cast<std::size_t>(images_ * staged_image_units(geometry_, layout_) * layout_.unit_bytes),
                    alignment);
  }

  void run_slice(std::int64_t images, const void* input, const void* residual, void* output, unsigned char* workspace,
                 Stream stream) const {
    if (!in_place_) {
      stage_channels_last(geometry_, images, precision_, input_, input, workspace, layout_.unit_elements,
                          layout_.units_per_group, static_cast<cudaStream_t>(stream));
    }
    Arguments args{
        .geometry = geometry_,
        .input = in_place_ ? input : workspace,
        .weight = weight_.data(),
        .bias = bias_.as<float>(),
        .filters = filters_.as<FilterRange>(),
        .taps = taps_.as<Position>(),
        .output = output,
        .partial = reinterpret_cast<float*>(workspace + staged_bytes()),
        .output_type = output_,
        .finish = finish_,
        .out_pitch = out_pitch_,
        .out_in_quads = out_in_quads_,
        .group_out_channels = geometry_.group_out_channels(),
        .quads = ceil_div(geometry_.group_out_channels(), 4),
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
    args.finish.residual = residual;
    args.n_tiles = ceil_div(args.pixels, choice_.tile.block_n);
    const auto blocks = static_cast<unsigned>(args.m_tiles) * static_cast<unsigned>(args.n_tiles) *
                        static_cast<unsigned>(geometry_.groups) * static_cast<unsigned>(choice_.splits);
    void* pointers[] = {&args};
    launch_kernel(choice_.tile.kernel,
                  {.grid = dim3(blocks),
                   .block = dim3(static_cast<unsigned>(choice_.tile.threads)),
                   .shared_bytes = choice_.tile.shared_bytes},
                  stream, pointers);
    if (choice_.splits == 1) return;
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
  int out_pitch_;
  bool out_in_quads_;
  Finish finish_;
  bool adds_;
  Layout layout_;
  bool in_place_;
  std::int64_t images_;  // of a launch
  Choice choice_;
  Constant weight_, taps_, filters_, bias_;
};

}  // namespace

bool takes(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  // On Hopper it is for what the faster kernels leave, and what those fuse is not to end here.
  const bool fused =
      p.device.wgmma && p.algorithm.empty() ? problem.epilogue.is_simple() : finish_takes(problem.epilogue, p);
  return p.device.architecture >= 80 && fused && !problem.prologue.scale.defined() && formats_fit(g, p) &&
         g.kernel_height <= max_kernel && g.kernel_width <= max_kernel &&
         images_per_launch(g, p, make_layout(g, p.precision)) > 0;
}

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation) {
  return std::make_unique<ImplicitGemm>(problem, preparation);
}

}  // namespace lamina::cuda::implicit_gemm
