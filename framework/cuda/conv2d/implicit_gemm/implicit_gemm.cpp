#include "lamina/cuda/conv2d/implicit_gemm/implicit_gemm.h"

#include <algorithm>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/implicit_gemm/choice.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"

namespace lamina::cuda {
namespace {

using namespace implicit_gemm;
using lamina::detail::ceil_div;
using lamina::detail::round_up;

constexpr std::int64_t most_blocks = std::numeric_limits<int>::max();
constexpr std::int64_t most_pixels = std::int64_t{1} << 30;  // of a launch: indices of pixels are ints
constexpr std::int64_t most_units = std::int64_t{1} << 31;   // of a launch: offsets in the staged input are 32 bits
constexpr std::size_t alignment = 256;

bool types_fit(const Conv2dOptions& options) {
  const auto fits = [&options](DType type) {
    return type == DType::f32 || (type == DType::f16 && options.precision == Precision::fp16) ||
           (type == DType::bf16 && options.precision == Precision::bf16);
  };
  return fits(options.input) && fits(options.output);
}

std::int64_t staged_image_units(const ConvGeometry& geometry, const Layout& layout) {
  return geometry.in_pixels() * layout.units_per_pixel;
}

/// Images of one launch: all, or as many as the workspace, 32-bit offsets and the grid allow; 0 if not even one.
std::int64_t images_per_launch(const ConvGeometry& geometry, const Conv2dOptions& options, const Layout& layout) {
  const std::int64_t units = staged_image_units(geometry, layout);
  const auto limit =
      static_cast<std::int64_t>(std::min(options.workspace_limit, std::size_t{1} << 62) / alignment * alignment);
  // The smallest tile of all, 64 x 64, bounds the grid from above; a tile more covers what rounding up adds.
  const std::int64_t filter_tiles = ceil_div(geometry.group_out_channels(), 64) * std::int64_t{geometry.groups};
  const std::int64_t pixels = std::min(most_pixels, (most_blocks / filter_tiles - 1) * 64);
  const std::int64_t most =
      std::min({limit / layout.unit_bytes / units, most_units / units, pixels / geometry.out_pixels(), geometry.batch});
  return most < 1 ? 0 : ceil_div(geometry.batch, ceil_div(geometry.batch, most));
}

class ImplicitGemm final : public Conv2dKernel {
 public:
  ImplicitGemm(const ConvGeometry& geometry, const Conv2dOptions& options, const float* weight, const float* bias,
               const ImplicitGemmChoice& choice)
      : geometry_(geometry), options_(options), layout_(make_layout(geometry, options.precision)) {
    const DeviceGuard guard(options.device);
    images_ = images_per_launch(geometry, options, layout_);
    if (images_ < 1) lamina::detail::fail("implicit_gemm: one image needs more than the workspace limit");
    choice_ = choose(geometry, images_, options, layout_,
                     options.workspace_limit - std::min(options.workspace_limit, staged_bytes()), choice);

    std::vector<FilterRange> filters;
    const auto packed = pack_weights(geometry, layout_, options.precision, choice_.tile.block_m, weight, filters);
    const auto taps = make_taps(geometry, layout_);
    weight_ = Constant(options.device, packed.data(), packed.size());
    taps_ = Constant(options.device, taps.data(), taps.size() * sizeof(Position));
    filters_ = Constant(options.device, filters.data(), filters.size() * sizeof(FilterRange));
    if (bias != nullptr) {
      bias_ = Constant(options.device, bias, static_cast<std::size_t>(geometry.out_channels) * sizeof(float));
    }
  }

  ConvAlgorithm algorithm() const override { return ConvAlgorithm::implicit_gemm; }

  std::string description() const override {
    return lamina::detail::concat(
        "implicit_gemm (", choice_.tile.instruction, ", ", name(options_.precision), "): ", choice_.tile.block_m,
        " filters x ", choice_.tile.block_n, " pixels per block, K in ", layout_.steps, " steps of 128 bytes",
        choice_.splits > 1 ? " over " : "", choice_.splits > 1 ? std::to_string(choice_.splits) + " splits" : "", ", ",
        (choice_.tile.shared_bytes + 1023) / 1024, " KB shared memory");
  }

  std::size_t workspace_bytes() const override {
    return staged_bytes() + partial_bytes(geometry_, images_, choice_.splits);
  }

  std::size_t parameter_bytes() const override {
    return weight_.bytes() + taps_.bytes() + filters_.bytes() + bias_.bytes();
  }

  void run(const void* input, void* output, void* workspace, Stream stream) const override {
    const DeviceGuard guard(options_.device);
    const auto input_image = static_cast<std::size_t>(geometry_.in_channels * geometry_.in_pixels());
    const auto output_image = static_cast<std::size_t>(geometry_.out_channels * geometry_.out_pixels());
    for (std::int64_t first = 0; first < geometry_.batch; first += images_) {
      const auto skipped = static_cast<std::size_t>(first);
      run_slice(std::min(images_, geometry_.batch - first),
                static_cast<const unsigned char*>(input) + skipped * input_image * size_of(options_.input),
                static_cast<unsigned char*>(output) + skipped * output_image * size_of(options_.output),
                static_cast<unsigned char*>(workspace), static_cast<cudaStream_t>(stream));
    }
  }

 private:
  std::size_t staged_bytes() const {
    return round_up(static_cast<std::size_t>(images_ * staged_image_units(geometry_, layout_) * layout_.unit_bytes),
                    alignment);
  }

  void run_slice(std::int64_t images, const void* input, void* output, unsigned char* workspace,
                 cudaStream_t stream) const {
    stage_channels_last(geometry_, images, options_.precision, options_.input, input, workspace, layout_.unit_elements,
                        layout_.units_per_group, stream);
    Arguments args{
        .geometry = geometry_,
        .input = workspace,
        .weight = weight_.data(),
        .bias = bias_.as<float>(),
        .filters = filters_.as<FilterRange>(),
        .taps = taps_.as<Position>(),
        .output = output,
        .partial = reinterpret_cast<float*>(workspace + staged_bytes()),
        .output_type = options_.output,
        .relu = options_.relu,
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
    check(cudaLaunchKernel(choice_.tile.kernel, dim3(blocks), dim3(threads), pointers, choice_.tile.shared_bytes,
                           stream));
    if (choice_.splits == 1) return;
    const dim3 grid(static_cast<unsigned>(ceil_div(args.pixels, threads)),
                    static_cast<unsigned>(std::min(geometry_.out_channels, 65535)));
    check(cudaLaunchKernel(choice_.reduce, grid, dim3(threads), pointers, 0, stream));
  }

  ConvGeometry geometry_;
  Conv2dOptions options_;
  Layout layout_;
  std::int64_t images_ = 0;
  Choice choice_;
  Constant weight_, taps_, filters_, bias_;
};

}  // namespace

bool implicit_gemm_supports(const ConvGeometry& geometry, const Conv2dOptions& options) {
  if (!types_fit(options)) return false;
  if (geometry.kernel_height > max_kernel || geometry.kernel_width > max_kernel) return false;
  if (device_attribute(options.device, cudaDevAttrComputeCapabilityMajor) < 8) return false;
  return images_per_launch(geometry, options, make_layout(geometry, options.precision)) > 0;
}

std::unique_ptr<Conv2dKernel> make_implicit_gemm(const ConvGeometry& geometry, const Conv2dOptions& options,
                                                 const float* weight, const float* bias,
                                                 const ImplicitGemmChoice& choice) {
  return std::make_unique<ImplicitGemm>(geometry, options, weight, bias, choice);
}

}  // namespace lamina::cuda
