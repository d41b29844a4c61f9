#include <cstring>

#include "lamina/cuda/conv2d/mma/resident/choice.h"
#include "lamina/cuda/tensor_core/packing.h"

namespace lamina::cuda::mma::resident {

Parameters pack(const Arguments& args, Precision precision, const float* weight, const float* bias) {
  const ConvGeometry& g = args.geometry;
  const Bundling& b = args.bundling;
  const int in = g.group_in_channels(), out = g.group_out_channels(), taps = g.kernel_height * g.kernel_width;
  const int element_bytes = static_cast<int>(size_of(storage_type(precision)));
  const int unit_elements = unit_bytes / element_bytes, rows = args.fragments * 8;
  const auto chunk_bytes = static_cast<std::size_t>(args.steps * step_bytes_of(precision, args.fragments));
  // A filter's place among those of all bundles.
  const auto row_of = [&](int filter) {
    if (b.parts == 1) return filter / b.filters * rows + filter % b.filters;
    const int group = filter / out, within = filter - group * out;
    return (group * b.parts + within / b.filters) * rows + within % b.filters;
  };
  Parameters result;
  result.weights.resize(static_cast<std::size_t>(b.count * args.chunks) * chunk_bytes);
  const auto put = [&](int filter, const auto& weight_of) {
    const int bundle = row_of(filter) / rows, i = row_of(filter) % rows;
    const int first = filter / out * in - BundlePlace(g, b, bundle).channel;
    for (int k = 0; k < in * taps; ++k) {
      const int channel = first + k / taps, tap = k % taps, unit = channel / unit_elements, chunk = unit / args.units;
      const int slot = args.slot(tap / g.kernel_width, tap % g.kernel_width, unit - chunk * args.units);
      const std::size_t place = place_of(precision, args.fragments, slot, channel % unit_elements, i);
      unsigned char* const to = result.weights.data() +
                                static_cast<std::size_t>(bundle * args.chunks + chunk) * chunk_bytes +
                                place * static_cast<std::size_t>(element_bytes);
      const float w = weight_of(k);
      if (precision != Precision::fp32) {
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
  result.biases.resize(static_cast<std::size_t>(b.count * rows));
  if (!ranges.empty()) result.ranges.resize(result.biases.size());
  for (int filter = 0; filter < g.out_channels; ++filter) {
    const auto row = static_cast<std::size_t>(row_of(filter)), from = static_cast<std::size_t>(filter);
    if (bias != nullptr) result.biases[row] = bias[from];
    if (!ranges.empty()) result.ranges[row] = ranges[from];
  }
  return result;
}

}  // namespace lamina::cuda::mma::resident
