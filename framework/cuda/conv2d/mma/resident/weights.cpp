#include <cstring>

#include "lamina/cuda/conv2d/mma/resident/choice.h"

namespace lamina::cuda::mma::resident {

Parameters pack(const Arguments& args, Precision precision, const float* weight, const float* bias,
                const lamina::detail::ChannelEnd* codes) {
  if (codes != nullptr) precision = Precision::fp16;  // which knows no ranges
  const ConvGeometry& g = args.geometry;
  const Bundling& b = args.bundling;
  const int in = g.group_in_channels(), out = g.group_out_channels(), taps = g.kernel_height * g.kernel_width;
  const int element_bytes = codes != nullptr ? 1 : static_cast<int>(size_of(storage_type(precision)));
  const int unit_elements = unit_bytes / element_bytes, rows = args.fragments * 8;
  const bool split = precision == Precision::fp32;
  const auto chunk_bytes = static_cast<std::size_t>(args.steps * step_bytes_of(split, args.fragments));
  // A filter's place among those of all bundles.
  const auto row_of = [&](int filter) {
    if (b.parts == 1) return filter / b.filters * rows + filter % b.filters;
    const int group = filter / out, within = filter - group * out;
    return (group * b.parts + within / b.filters) * rows + within % b.filters;
  };
  Parameters result = {{}, Packed(std::int64_t{b.count} * rows * (codes != nullptr ? 8 : 4)), {}};
  result.weights.resize(static_cast<std::size_t>(b.count * args.chunks) * chunk_bytes);
  const auto put = [&](int filter, const auto& weight_of) {
    const int bundle = row_of(filter) / rows, i = row_of(filter) % rows;
    const int first = filter / out * in - BundlePlace(g, b, bundle).channel;
    for (int k = 0; k < in * taps; ++k) {
      const int channel = first + k / taps, tap = k % taps, unit = channel / unit_elements, chunk = unit / args.units;
      const int slot = args.slot(tap / g.kernel_width, tap % g.kernel_width, unit - chunk * args.units);
      const std::size_t place = place_of(element_bytes, split, args.fragments, slot, channel % unit_elements, i);
      unsigned char* const to = result.weights.data() +
                                static_cast<std::size_t>(bundle * args.chunks + chunk) * chunk_bytes +
                                place * static_cast<std::size_t>(element_bytes);
      const float w = weight_of(k);
      if (codes != nullptr) {
        *to = static_cast<unsigned char>(static_cast<std::int8_t>(w));
        continue;
      }
      if (!split) {
        put_operand(to, precision, w);
        continue;
      }
      put_operand(to, Precision::tf32, w);
      float high;
      std::memcpy(&high, to, sizeof(high));
      put_operand(to + 2 * sizeof(high), precision, w - high);
    }
  };
  const std::vector<FilterRange> ranges = pack_filters(precision, weight, g.out_channels, std::int64_t{in} * taps, put);
  if (!ranges.empty()) result.ranges.resize(static_cast<std::size_t>(b.count * rows));
  for (int filter = 0; filter < g.out_channels; ++filter) {
    const auto row = static_cast<std::size_t>(row_of(filter)), from = static_cast<std::size_t>(filter);
    const std::int64_t place = std::int64_t{row_of(filter)} * 4, before = place / (rows * 4) * (rows * 4);
    if (codes != nullptr) {
      result.biases.put(before + place, codes->bias[from]);
      result.biases.put(before + place + rows * 4, codes->factor[from]);
    } else if (bias != nullptr) {
      result.biases.put(place, bias[from]);
    }
    if (!ranges.empty()) result.ranges[row] = ranges[from];
  }
  return result;
}

}  // namespace lamina::cuda::mma::resident
