#pragma once

// The map whose windows are added up is the input. Shared memory: halo_height * halo_width * pixel_bytes, and behind
// them, unless they are in registers, weights [taps, slice], words of 4 bytes.

#include "lamina/cuda/conv2d/depthwise/tile.cuh"
#include "lamina/cuda/conv2d/depthwise/windows.cuh"

namespace lamina::cuda::depthwise {

template <class T>
struct Image {
  using Element = T;
  using Arguments = depthwise::Arguments;
  static constexpr bool expands = false;

  const Arguments& args;
  const Place& place;
  Rectangle halo;
  unsigned char* const map;
  Sum<T>* const taps;  // of the slice
  const Sum<T>* const biases;
  const float* const factors;  // of codes
  const unsigned char* input;  // of the slice, the image's first pixel

  __device__ __forceinline__ Image(const Arguments& args_, const Place& place_, int, int top, int left,
                                   unsigned char* memory)
      : args(args_),
        place(place_),
        halo{top, left, args_.halo_height, args_.halo_width},
        map(memory),
        taps(reinterpret_cast<Sum<T>*>(memory + halo.pixels() * args_.pixel_bytes)),
        biases(static_cast<const Sum<T>*>(args_.bias) + place_.channel),
        factors(args_.ends.factor + place_.channel),
        input(static_cast<const unsigned char*>(args_.input) +
              (place_.image * args_.geometry.in_height * args_.geometry.in_width * args_.input_pitch + place_.channel) *
                  static_cast<int>(sizeof(T))) {
    ptx::pin(halo.top), ptx::pin(halo.left), ptx::pin(input);  // found before the wait, not row by row behind it
  }

  template <int pack>
  __device__ __forceinline__ void load_parameters(int count) const {
    const auto* const weights = static_cast<const Sum<T>*>(args.weight);
    const int lanes = args.slice / pack, channels = args.geometry.in_channels;
    for (int i = static_cast<int>(threadIdx.x); i < count * lanes; i += static_cast<int>(blockDim.x)) {
      const int tap = static_cast<int>(args.by_lanes.quotient(static_cast<std::uint32_t>(i)));
      const int channel = place.channel + (i - tap * lanes) * pack;
      if (channel >= channels) continue;
      ptx::copy_async<pack * 4>(ptx::shared_address(taps + i * pack), weights + tap * channels + channel, true);
    }
  }

  __device__ __forceinline__ void load() const {
    constexpr int size = sizeof(T);
    const ConvGeometry& g = args.geometry;
    const int real = min(args.slice, g.in_channels - place.channel) * size;
    load_pixels<false>(args, halo, input, static_cast<std::int64_t>(args.input_pitch) * size, real,
                       ptx::shared_address(map), args.pixel_bytes);
  }

  __device__ __forceinline__ void expand() const {}
};

}  // namespace lamina::cuda::depthwise
