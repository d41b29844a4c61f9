#include "lamina/cuda/nhwc_weights.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "lamina/cuda/implicit_gemm_layout.h"
#include "lamina/cuda/nhwc_choice.h"
#include "lamina/tensor/in_parallel.h"

namespace lamina::cuda::nhwc {
namespace {

template <class Round>
std::vector<unsigned char> pack(const ConvGeometry& g, Precision precision, int filter_blocks, const float* weight,
                                Round&& round) {
  using Stored = decltype(round(0.0f, 0));
  const int terms = step_terms(precision), taps = g.kernel_height * g.kernel_width;
  const auto steps = static_cast<std::size_t>(step_count(g, precision));
  std::vector<unsigned char> packed(static_cast<std::size_t>(filter_blocks) * steps * block_bytes);
  const auto pack_filter = [&](int filter) {
    const float* w = weight + static_cast<std::int64_t>(filter) * g.reduction();
    unsigned char* block = packed.data() + static_cast<std::size_t>(filter / block_filters) * steps * block_bytes;
    for (int channel = 0; channel < g.in_channels; ++channel) {
      const int column = channel % terms * static_cast<int>(sizeof(Stored));
      const int byte = swizzled(filter % block_filters, column / 16 * 16) + column % 16;
      for (int tap = 0; tap < taps; ++tap) {
        const Stored value = round(*w++, filter);
        const auto step = static_cast<std::size_t>(channel / terms * taps + tap);
        std::memcpy(block + step * block_bytes + byte, &value, sizeof(value));
      }
    }
  };
  lamina::detail::in_parallel(static_cast<std::size_t>(g.out_channels), 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t filter = begin; filter < end; ++filter) pack_filter(static_cast<int>(filter));
  });
  return packed;
}

}  // namespace

std::vector<unsigned char> pack_weights(const ConvGeometry& geometry, Precision precision, int filter_blocks,
                                        const float* weight, std::vector<FilterRange>& ranges) {
  switch (precision) {
    case Precision::fp16:
      return pack(geometry, precision, filter_blocks, weight, [](float w, int) { return to_half(w).bits; });
    case Precision::bf16:
      return pack(geometry, precision, filter_blocks, weight, [](float w, int) { return to_bfloat16(w).bits; });
    case Precision::fp32: {
      ranges.resize(static_cast<std::size_t>(filter_blocks * block_filters));
      std::vector<int> shifts(static_cast<std::size_t>(geometry.out_channels));
      for (std::size_t filter = 0; filter < shifts.size(); ++filter) {
        ranges[filter] = implicit_gemm::find_range(weight + static_cast<std::int64_t>(filter) * geometry.reduction(),
                                                   geometry.reduction(), shifts[filter]);
      }
      return pack(geometry, precision, filter_blocks, weight,
                  [&](float w, int filter) { return std::ldexp(w, shifts[static_cast<std::size_t>(filter)]); });
    }
    default:
      return pack(geometry, precision, filter_blocks, weight,
                  [](float w, int) { return round_to_tf32(std::bit_cast<std::uint32_t>(w)); });
  }
}

}  // namespace lamina::cuda::nhwc
