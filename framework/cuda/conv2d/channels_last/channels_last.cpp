#include "lamina/cuda/conv2d/channels_last/channels_last.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/channels_last/choice.h"
#include "lamina/cuda/conv2d/channels_last/maps.h"
#include "lamina/cuda/conv2d/channels_last/weights.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/launch_attributes.h"
#include "lamina/cuda/tensor_core/scaled_rows.h"

namespace lamina::cuda {
namespace {

using lamina::detail::ceil_div;

/// Whether the channels of a pixel lie side by side. A map of one pixel is stored alike in both layouts.
bool channels_last(Layout layout, std::int64_t pixels) { return layout == Layout::nhwc || pixels == 1; }

bool formats_fit(const ConvGeometry& g, const Conv2dOptions& o) {
  return !o.pool && o.input == storage_type(o.precision) && (o.output == o.input || o.output == DType::f32) &&
         channels_last(o.input_layout, g.in_pixels()) && channels_last(o.output_layout, g.out_pixels()) &&
         static_cast<std::size_t>(g.in_channels) * size_of(o.input) % 16 == 0 &&
         static_cast<std::size_t>(g.out_channels) * size_of(o.output) % 16 == 0;
}

std::string operand_note(channels_last::Operand operand) {
  return operand == channels_last::Operand::scaled_pairs ? " by pairs of f16"
         : operand == channels_last::Operand::scaled_f16 ? " by f16"
                                                         : "";
}

class NhwcConv2d final : public Conv2dKernel {
 public:
  NhwcConv2d(const ConvGeometry& geometry, const Conv2dOptions& options, const float* weight, const float* bias,
             const NhwcChoice& wanted)
      : options_(options) {
    const DeviceGuard guard(options.device);
    auto choice = channels_last::choose(geometry, options, wanted);
    channels_last::ScaledWeights scaled;
    if (choice && is_scaled(choice->tile.operand)) {
      scaled = channels_last::examine_scaled(geometry, choice->tile.operand, weight);
      strict_ = scaled.strict;
      if (!scaled.representable) choice = channels_last::choose(geometry, options, wanted, false);
    }
    if (!choice) lamina::detail::fail("implicit_gemm: no channels-last tile fits this device or these weights");
    choice_ = *choice;
    images_ = geometry.batch;
    args_.geometry = geometry;
    args_.geometry.batch = choice_.images;
    args_.output_type = options.output;
    args_.relu = options.relu;
    args_.m_tiles = ceil_div(ceil_div(geometry.out_channels, channels_last::block_filters), choice_.tile.groups);
    args_.steps = channels_last::step_count(geometry, choice_.tile.operand);
    const int slabs = channels_last::slab_count(geometry, choice_.tile.operand);
    const bool chained = channels_last::chain_slabs(choice_.tile.operand) == 2;
    args_.paired = chained ? slabs / 2 * 2 * geometry.kernel_height * geometry.kernel_width : 0;
    args_.stages = choice_.stages;
    args_.multicast = choice_.multicast;
    args_.splits = choice_.splits;
    args_.in_ring = choice_.in_ring;

    const int filter_blocks = args_.m_tiles * choice_.tile.groups;
    std::vector<FilterRange> ranges;
    const auto packed = channels_last::pack_weights(geometry, choice_.tile.operand, filter_blocks, weight,
                                                    std::move(scaled.shifts), ranges);
    std::vector<float> biases(static_cast<std::size_t>(filter_blocks * channels_last::block_filters));
    if (bias != nullptr) std::copy(bias, bias + geometry.out_channels, biases.begin());
    weight_ = Constant(options.device, packed.data(), packed.size());
    bias_ = Constant(options.device, biases.data(), biases.size() * sizeof(float));
    ranges_ = Constant(options.device, ranges.data(), ranges.size() * sizeof(FilterRange));
    args_.weight = weight_.data();
    args_.ranges = ranges_.as<FilterRange>();
    args_.bias = bias_.as<float>();
  }

  ConvAlgorithm algorithm() const override { return ConvAlgorithm::implicit_gemm; }

  std::string description() const override {
    return lamina::detail::concat(
        "implicit_gemm (wgmma, ", name(options_.precision), operand_note(choice_.tile.operand),
        ", nhwc): ", choice_.tile.groups * channels_last::block_filters, " filters x ", choice_.tile.pixels,
        " pixels per block, K in ", args_.steps, " steps of 128 bytes",
        args_.splits > 1 ? lamina::detail::concat(" over ", args_.splits, " splits") : std::string(),
        args_.multicast > 1 ? lamina::detail::concat(", weights shared by ", args_.multicast, " blocks")
                            : std::string(),
        ", ring of ", args_.stages, ", ", choice_.blocks, " blocks");
  }

  std::size_t workspace_bytes() const override {
    return is_scaled(choice_.tile.operand) ? scaled_bytes().workspace() : 0;
  }

  std::size_t parameter_bytes() const override { return weight_.bytes() + bias_.bytes() + ranges_.bytes(); }

  void run(const void* input, void* output, void* workspace, Stream stream) const override {
    const DeviceGuard guard(options_.device);
    const auto* in = static_cast<const std::byte*>(input);
    auto* out = static_cast<std::byte*>(output);
    const ConvGeometry& g = args_.geometry;
    const std::size_t in_bytes = static_cast<std::size_t>(g.in_pixels() * g.in_channels) * size_of(options_.input),
                      out_bytes = static_cast<std::size_t>(g.out_pixels() * g.out_channels) * size_of(options_.output);
    for (std::int64_t first = 0; first < images_; first += choice_.images) {
      channels_last::Arguments args = args_;
      args.geometry.batch = std::min<std::int64_t>(choice_.images, images_ - first);
      args.pixels = static_cast<int>(args.geometry.batch * g.out_pixels());
      args.n_tiles = ceil_div(args.pixels, choice_.tile.pixels);
      args.input = in + static_cast<std::size_t>(first) * in_bytes;
      args.output = out + static_cast<std::size_t>(first) * out_bytes;
      launch(args, is_scaled(choice_.tile.operand) ? scale(args, workspace, stream) : args.input, stream);
    }
  }

 private:
  channels_last::ScaledBytes scaled_bytes() const {
    return channels_last::scaled_bytes(args_.geometry, choice_.tile.operand, choice_.images);
  }

  /// Makes the words that the kernel multiplies, in the workspace; returns where the copy engine finds them.
  const void* scale(channels_last::Arguments& args, void* workspace, Stream stream) const {
    auto* words = reinterpret_cast<std::byte*>(lamina::detail::round_up(
        reinterpret_cast<std::uintptr_t>(workspace), std::uintptr_t{channels_last::ScaledBytes::workspace_alignment}));
    auto* scales = reinterpret_cast<float*>(words + scaled_bytes().rows);
    scale_rows({.input = static_cast<const float*>(args.input),
                .rows = words,
                .scales = scales,
                .pixels = args.geometry.batch * args.geometry.in_pixels(),
                .channels = args.geometry.in_channels,
                .pairs = choice_.tile.operand == channels_last::Operand::scaled_pairs,
                .strict = strict_},
               stream);
    args.scales = scales;
    return words;
  }

  /// `pixels`: what the copy engine reads.
  void launch(channels_last::Arguments& args, const void* pixels, Stream stream) const {
    // Maps hold addresses. Making them takes the host less than the launch does.
    CUtensorMap input_map = channels_last::input_map(args.geometry, choice_.tile.operand, choice_.tile.pixels, pixels);
    CUtensorMap output_map =
        channels_last::output_map(args.geometry, options_.output,
                                  choice_.tile.store_pixels / (options_.output == DType::f32 ? 2 : 1), args.output);
    cudaLaunchAttribute attributes[] = {may_overlap(), mostly_shared_memory(), {}};
    attributes[2].id = cudaLaunchAttributeClusterDimension;
    attributes[2].val.clusterDim.x = static_cast<unsigned>(choice_.cluster());
    attributes[2].val.clusterDim.y = attributes[2].val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(choice_.blocks));
    config.blockDim = dim3(static_cast<unsigned>(choice_.tile.threads()));
    config.dynamicSmemBytes =
        static_cast<std::size_t>(choice_.tile.shared_bytes(choice_.stages, choice_.splits, choice_.in_ring));
    config.stream = static_cast<cudaStream_t>(stream);
    config.attrs = attributes;
    config.numAttrs = choice_.cluster() > 1 ? 3 : 2;
    void* arguments[] = {&args, &input_map, &output_map};
    check(cudaLaunchKernelExC(&config, choice_.tile.kernel, arguments));
  }

  Conv2dOptions options_;
  channels_last::Choice choice_;
  std::int64_t images_ = 0;  // of the whole batch
  bool strict_ = true;       // ScaledRows::strict
  channels_last::Arguments args_;
  Constant weight_, bias_, ranges_;
};

}  // namespace

bool nhwc_conv2d_supports(const ConvGeometry& geometry, const Conv2dOptions& options) {
  if (!formats_fit(geometry, options) || geometry.groups != 1 || !channels_last::expressible(geometry)) return false;
  if (geometry.batch * geometry.out_pixels() > channels_last::most_pixels) return false;
  const DeviceGuard guard(options.device);
  return device_attribute(options.device, cudaDevAttrComputeCapabilityMajor) == 9 &&
         device_attribute(options.device, cudaDevAttrComputeCapabilityMinor) == 0 &&
         channels_last::has_code(options.precision);
}

std::unique_ptr<Conv2dKernel> make_nhwc_conv2d(const ConvGeometry& geometry, const Conv2dOptions& options,
                                               const float* weight, const float* bias, const NhwcChoice& choice) {
  return std::make_unique<NhwcConv2d>(geometry, options, weight, bias, choice);
}

}  // namespace lamina::cuda
