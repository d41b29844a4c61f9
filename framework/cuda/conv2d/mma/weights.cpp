#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "lamina/base/in_parallel.h"
#include "lamina/cuda/conv2d/mma/choice.h"
#include "lamina/cuda/tensor_core/weights.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cuda::mma {
namespace {

void put(Precision precision, unsigned char* words, std::size_t place, float w) {
  const auto store = [&](std::size_t at, auto bits) { std::memcpy(words + at * sizeof(bits), &bits, sizeof(bits)); };
  switch (precision) {
    case Precision::fp16: return store(place, to_half(w).bits);
    case Precision::bf16: return store(place, to_bfloat16(w).bits);
    case Precision::tf32: return store(place, round_to_tf32(std::bit_cast<std::uint32_t>(w)));
    case Precision::fp32: break;
  }
  const std::uint32_t high = round_to_tf32(std::bit_cast<std::uint32_t>(w));
  store(place, high);
  store(place + 2, w - std::bit_cast<float>(high));
}

}  // namespace

Packed pack(const Arguments& args, Precision precision, const float* weight, const float* bias) {
  const ConvGeometry& g = args.geometry;
  const int in = g.group_in_channels(), out = g.group_out_channels(), taps = g.kernel_height * g.kernel_width;
  const int unit_elements = unit_bytes / static_cast<int>(size_of(storage_type(precision)));
  const auto chunk_bytes =
      static_cast<std::size_t>(args.steps) * static_cast<std::size_t>(step_bytes_of(precision, args.fragments));
  const auto chunks = static_cast<std::size_t>(args.chunks), bundles = static_cast<std::size_t>(args.bundling.count);
  const auto rows = static_cast<std::size_t>(args.fragments * 8);
  Packed result;
  result.weights.resize(bundles * chunks * chunk_bytes);
  result.biases.resize(bundles * rows);
  if (precision == Precision::fp32) result.ranges.resize(bundles * rows);
  lamina::detail::in_parallel(bundles, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t bundle = begin; bundle < end; ++bundle) {
      const BundlePlace place(g, args.bundling, static_cast<int>(bundle));
      for (int i = 0; i < place.filters; ++i) {
        const int filter = place.filter + i, first = filter / out * in - place.channel;
        const std::size_t row = bundle * rows + static_cast<std::size_t>(i);
        const float* w = weight + std::int64_t{filter} * in * taps;
        if (bias != nullptr) result.biases[row] = bias[filter];
        int shift = 0;
        if (precision == Precision::fp32) result.ranges[row] = find_range(w, std::int64_t{in} * taps, shift);
        for (int c = 0; c < in; ++c) {
          const int unit = (first + c) / unit_elements, chunk = unit / args.units;
          unsigned char* words =
              result.weights.data() + (bundle * chunks + static_cast<std::size_t>(chunk)) * chunk_bytes;
          for (int tap = 0; tap < taps; ++tap) {
            put(precision, words,
                place_of(precision, args.fragments,
                         args.slot(tap / g.kernel_width, tap % g.kernel_width, unit - chunk * args.units),
                         (first + c) % unit_elements, i),
                shift == 0 ? *w : std::ldexp(*w, shift));
            ++w;
          }
        }
      }
    }
  });
  return result;
}

}  // namespace lamina::cuda::mma
