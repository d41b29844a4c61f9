#include "lamina/cuda/conv2d/ladder/ladder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/cuda/conv2d/ladder/4_tiled.h"
#include "lamina/cuda/conv2d/ladder/kernels.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"

namespace lamina::cuda {
namespace {

/// What the four kernels written here share: parameters on the device, and the arguments they make.
class Textbook : public Conv2dKernel {
 public:
  /// `weight` in the layout of the kernel.
  Textbook(const ConvGeometry& geometry, const Conv2dOptions& options, std::vector<float> weight, const float* bias,
           std::string description)
      : geometry_(geometry),
        options_(options),
        weight_(options.device, weight.data(), weight.size() * sizeof(float)),
        description_(std::move(description)) {
    if (bias != nullptr) {
      bias_ = Constant(options.device, bias, static_cast<std::size_t>(geometry.out_channels) * sizeof(float));
    }
  }

  std::string description() const override { return description_; }
  std::size_t workspace_bytes() const override { return 0; }
  std::size_t parameter_bytes() const override { return weight_.bytes() + bias_.bytes(); }

 protected:
  Conv2dArguments arguments(const void* input, void* output) const {
    return {.input = static_cast<const float*>(input),
            .weight = weight_.as<float>(),
            .bias = bias_.as<float>(),
            .output = static_cast<float*>(output),
            .relu = options_.relu};
  }
  const ConvGeometry& geometry() const { return geometry_; }
  int device() const { return options_.device; }

 private:
  ConvGeometry geometry_;
  Conv2dOptions options_;
  Constant weight_;
  Constant bias_;
  std::string description_;
};

std::vector<float> unpacked(const ConvGeometry& geometry, const float* weight) {
  return {weight, weight + geometry.weight_size()};
}

class Direct final : public Textbook {
 public:
  using Textbook::Textbook;
  ConvAlgorithm algorithm() const override { return ConvAlgorithm::direct; }
  void run(const void* input, void* output, void*, Stream stream) const override {
    const DeviceGuard guard(device());
    conv2d_direct(geometry(), arguments(input, output), stream);
  }
};

class DirectFixed final : public Textbook {
 public:
  using Textbook::Textbook;
  ConvAlgorithm algorithm() const override { return ConvAlgorithm::direct_fixed; }
  void run(const void* input, void* output, void*, Stream stream) const override {
    const DeviceGuard guard(device());
    conv2d_direct_fixed(geometry(), arguments(input, output), stream);
  }
};

std::size_t padded_image_bytes(const ConvGeometry& g) {
  if (g.padding_height == 0 && g.padding_width == 0) return 0;  // the image itself will do
  return static_cast<std::size_t>(g.in_channels * (g.in_height + 2 * std::int64_t{g.padding_height}) *
                                  (g.in_width + 2 * std::int64_t{g.padding_width})) *
         sizeof(float);
}

/// Pads as many images as the workspace holds, convolves them, and goes on with the next ones.
class DirectPadded final : public Textbook {
 public:
  DirectPadded(const ConvGeometry& geometry, const Conv2dOptions& options, const float* weight, const float* bias,
               std::int64_t images)
      : Textbook(geometry, options, unpacked(geometry, weight), bias,
                 detail::concat("direct_padded: one thread per output over ", images, " padded images at a time")),
        images_(images) {}

  ConvAlgorithm algorithm() const override { return ConvAlgorithm::direct_padded; }
  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(images_) * padded_image_bytes(geometry());
  }

  void run(const void* input, void* output, void* workspace, Stream stream) const override {
    const DeviceGuard guard(device());
    const ConvGeometry& g = geometry();
    const bool pads = padded_image_bytes(g) != 0;
    for (std::int64_t image = 0; image < g.batch; image += images_) {
      ConvGeometry slice = g;
      slice.batch = std::min(images_, g.batch - image);
      Conv2dArguments a = arguments(input, output);
      a.input += image * g.in_channels * g.in_pixels();
      a.output += image * g.out_channels * g.out_pixels();
      if (pads) {
        pad_images(slice, a.input, static_cast<float*>(workspace), stream);
        a.input = static_cast<const float*>(workspace);
      }
      conv2d_direct_padded(slice, a, stream);
    }
  }

 private:
  std::int64_t images_;
};

class Tiled final : public Textbook {
 public:
  Tiled(const ConvGeometry& geometry, const Conv2dOptions& options, const float* weight, const float* bias,
        const TiledPlan& plan, const TiledLimits& limits)
      : Textbook(geometry, options, pack_conv2d_tiled(geometry, plan, weight), bias, describe(geometry, plan)),
        plan_(plan),
        taps_(tiled_taps(geometry, plan)) {
    const DeviceGuard guard(device());
    conv2d_tiled_reserve(plan, limits.shared_per_block);
  }

  ConvAlgorithm algorithm() const override { return ConvAlgorithm::tiled; }
  void run(const void* input, void* output, void*, Stream stream) const override {
    const DeviceGuard guard(device());
    conv2d_tiled(geometry(), plan_, taps_, arguments(input, output), stream);
  }

 private:
  static std::string describe(const ConvGeometry& g, const TiledPlan& plan) {
    return detail::concat("tiled: ", plan.tile_pixels, " pixels x ",
                          std::min(plan.block_channels(), g.group_out_channels()), " channels per block of ",
                          32 * plan.warps(), " threads, ", plan.thread_pixels, " x ", plan.thread_channels,
                          " per thread, ", plan.stage_channels, " input channels x ", plan.stage_kernel_rows,
                          " kernel rows per stage, ", (plan.shared_bytes() + 1023) / 1024, " KB shared memory");
  }

  TiledPlan plan_;
  TiledTaps taps_;
};

/// [OC, taps] -> [OC / 8, taps, 8].
std::vector<float> packed_by_eights(const ConvGeometry& g, const float* weight) {
  const std::int64_t taps = g.reduction();
  std::vector<float> packed(static_cast<std::size_t>(g.weight_size()));
  for (std::int64_t oc = 0; oc < g.out_channels; ++oc) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      packed[static_cast<std::size_t>((oc / 8 * taps + tap) * 8 + oc % 8)] = weight[oc * taps + tap];
    }
  }
  return packed;
}

std::unique_ptr<Conv2dKernel> direct_because(const ConvGeometry& geometry, const Conv2dOptions& options,
                                             const float* weight, const float* bias, const std::string& reason) {
  return std::make_unique<Direct>(geometry, options, unpacked(geometry, weight), bias,
                                  "direct: one thread per output" + reason);
}

}  // namespace

std::unique_ptr<Conv2dKernel> make_direct(const ConvGeometry& geometry, const Conv2dOptions& options,
                                          const float* weight, const float* bias) {
  return direct_because(geometry, options, weight, bias, "");
}

std::unique_ptr<Conv2dKernel> make_direct_fixed(const ConvGeometry& geometry, const Conv2dOptions& options,
                                                const float* weight, const float* bias) {
  if (!conv2d_direct_fixed_supports(geometry)) {
    return direct_because(geometry, options, weight, bias,
                          " (direct_fixed is compiled for AlexNet's first layer only)");
  }
  return std::make_unique<DirectFixed>(geometry, options, packed_by_eights(geometry, weight), bias,
                                       "direct_fixed: one thread per pixel of eight filters, geometry constant");
}

std::unique_ptr<Conv2dKernel> make_direct_padded(const ConvGeometry& geometry, const Conv2dOptions& options,
                                                 const float* weight, const float* bias) {
  const std::size_t image = padded_image_bytes(geometry);
  if (image > options.workspace_limit) {
    return direct_because(geometry, options, weight, bias,
                          detail::concat(" (a padded image takes ", image, " bytes of workspace, the limit is ",
                                         options.workspace_limit, ')'));
  }
  const std::int64_t fit = image == 0 ? geometry.batch : static_cast<std::int64_t>(options.workspace_limit / image);
  return std::make_unique<DirectPadded>(geometry, options, weight, bias, std::min(geometry.batch, fit));
}

std::unique_ptr<Conv2dKernel> make_tiled(const ConvGeometry& geometry, const Conv2dOptions& options,
                                         const float* weight, const float* bias) {
  const TiledLimits limits{
      .multiprocessors = device_attribute(options.device, cudaDevAttrMultiProcessorCount),
      .shared_per_block =
          static_cast<std::size_t>(device_attribute(options.device, cudaDevAttrMaxSharedMemoryPerBlockOptin)),
      .shared_per_multiprocessor =
          static_cast<std::size_t>(device_attribute(options.device, cudaDevAttrMaxSharedMemoryPerMultiprocessor))};
  const auto plan = plan_conv2d_tiled(geometry, limits);
  if (!plan) {
    return direct_because(
        geometry, options, weight, bias,
        detail::concat(" (no tile fits a kernel row of ", geometry.kernel_width, " taps, dilation ",
                       geometry.dilation_width, ", output ", geometry.out_height, " x ", geometry.out_width, ")"));
  }
  return std::make_unique<Tiled>(geometry, options, weight, bias, *plan, limits);
}

}  // namespace lamina::cuda
