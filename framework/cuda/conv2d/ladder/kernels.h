#pragma once

#include <cstdint>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/conv_geometry.h"

/// The launchers of the textbook ladder: each enqueues one kernel on the current device and checks the launch.
/// conv2d.cpp decides which to call; docs/inside/kernels.md explains them. All tensors are f32 in device memory.
namespace lamina::cuda {

struct Conv2dArguments {
  const float* input = nullptr;   // [N, C, H, W]
  const float* weight = nullptr;  // layout as each launcher says
  const float* bias = nullptr;    // [OC], or null
  float* output = nullptr;        // [N, OC, OH, OW]
  bool relu = false;
};

/// weight [OC, C / groups, KH, KW].
void conv2d_direct(const ConvGeometry& geometry, const Conv2dArguments& arguments, Stream stream);

/// Whether conv2d_direct_fixed is instantiated for this geometry: AlexNet's first layer, with 64 or 96 filters.
bool conv2d_direct_fixed_supports(const ConvGeometry& geometry);

/// weight [OC / 8, C, KH, KW, 8]: eight filters side by side.
void conv2d_direct_fixed(const ConvGeometry& geometry, const Conv2dArguments& arguments, Stream stream);

/// Copies images of [C, H, W] into planes of [C, H + 2 padding, W + 2 padding] with a border of zeros.
void pad_images(const ConvGeometry& geometry,
                const float* images,  // [geometry.batch, C, H, W]
                float* padded,        // [geometry.batch, C, H + 2 padding_height, W + 2 padding_width]
                Stream stream);

/// The convolution of `geometry.batch` padded images: arguments.input is what pad_images wrote (or the images
/// themselves where there is no padding). weight [OC, C / groups, KH, KW].
void conv2d_direct_padded(const ConvGeometry& geometry, const Conv2dArguments& arguments, Stream stream);

/// A slice of the unfolded input: some images and one group, or a run of output pixels of one image and group.
struct Im2colSlice {
  std::int64_t first_image = 0, images = 0;
  int group = 0;
  std::int64_t first_pixel = 0, pixels = 0;  // of OH x OW
  std::int64_t pitch = 0;                    // floats from one row of columns to the next: pixels, rounded up to 4
};

/// Unfolds: columns[image, k, pixel] is the input that meets weight k = (c, kh, kw) at that output pixel, or zero on
/// padding. With `tf32` values are rounded to TF32's 10 mantissa bits, to nearest, ties away.
void im2col(const ConvGeometry& geometry, const Im2colSlice& slice,
            const float* input,  // [N, C, H, W]
            float* columns,      // [slice.images, K, slice.pitch]
            bool tf32, Stream stream);

/// output[image, channel, pixel] = activate(output[..] + bias[channel]) over the slice.
void add_bias_and_activate(const ConvGeometry& geometry, const Im2colSlice& slice,
                           const float* bias,  // [OC], or null
                           float* output,      // [N, OC, OH, OW]
                           bool relu, Stream stream);

}  // namespace lamina::cuda
