#pragma once

#include "lamina/cuda/sm90_barrier.cuh"
#include "lamina/cuda/sm90_modes.cuh"

/// Staging: f32 rows of the image become 16-bit units in the ring, laid out so that wgmma reads windows in place.
///
/// Ring row r of plane (phase, channel) holds the units of image rows  stride * r + phase - padding ...  One unit is
/// what one output pixel takes from them: `stride` columns of 8 / stride rows, 16 bytes. The next pixel's unit is the
/// next 16 bytes, so 64 pixels' operand rows for one unit of K are 1,024 consecutive bytes, and a window's next
/// column unit is the same run 16 bytes on: overlapping core matrices instead of unfolded columns.
namespace lamina::cuda::sm90 {

/// Unit range [low, high] of a ring row in which some value failed the range check; low > high: none did.
struct BadUnits {
  std::uint32_t low = 0xFFFF, high = 0;

  __device__ __forceinline__ void add(int first, int last) {
    low = min(low, static_cast<std::uint32_t>(max(first, 0)));
    high = max(high, static_cast<std::uint32_t>(last));
  }
  __device__ __forceinline__ std::uint32_t packed() const { return low << 16 | high; }
};
inline constexpr std::uint32_t no_bad_units = 0xFFFF0000u;

/// One row of one strip of one image to stage, and where to.
struct RingRow {
  const float* image;   // [C, H, W]
  int row;              // ring row = output row that reads it without a shift
  int first_column;     // of the strip, in output columns
  int slot;             // in the ring
};

template <class M>
struct Stager {
  using Operand = typename M::Operand;

  const Params& p;
  unsigned char* ring;

  __device__ __forceinline__ unsigned char* unit(int plane, int position) const {
    return ring + (plane * p.plane_units + position) * unit_bytes;
  }
  __device__ __forceinline__ int residual_offset() const {
    return p.phases * p.channels * p.plane_units * unit_bytes;
  }

  /// high and residual of two neighbouring slots.
  __device__ __forceinline__ static void convert(float a, float b, std::uint32_t& high, std::uint32_t& residual) {
    if constexpr (M::scaled) a *= input_scale, b *= input_scale;
    high = Pair<Operand>::pack(a, b);
    if constexpr (M::split) {
      const float2 rounded = Pair<Operand>::unpack(high);
      residual = Pair<Operand>::pack((a - rounded.x) * residual_scale, (b - rounded.y) * residual_scale);
    }
  }

  __device__ __forceinline__ int image_row(const RingRow& to, int phase) const {
    return p.stride * to.row + p.phase_row[phase] - p.padding_height;
  }

  /// Stride 4: one aligned float4 of both rows of a unit pair. `u` is the unit that the left halves end.
  __device__ __forceinline__ void load_wide(const RingRow& to, int plane, int u, float4 (&v)[2]) const {
    const int phase = plane / p.channels, channel = plane - phase * p.channels;
    const int row = image_row(to, phase);
    const int column = 4 * (u + to.first_column - (p.padding_width >> 2));
    const float* line = to.image + (channel * p.in_height + row) * p.in_width + column;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const bool inside = column >= 0 && column < p.in_width && row + r >= 0 && row + r < p.in_height;
      v[r] = inside ? __ldg(reinterpret_cast<const float4*>(line + r * p.in_width)) : make_float4(0, 0, 0, 0);
    }
  }

  __device__ __forceinline__ void store_wide(const RingRow& to, int plane, int u, const float4 (&v)[2],
                                             BadUnits& bad) const {
    RangeCheck<M> check;
#pragma unroll
    for (int r = 0; r < 2; ++r) check.see(v[r].x), check.see(v[r].y), check.see(v[r].z), check.see(v[r].w);
    if (check.failed()) bad.add(u, min(u + 1, p.pitch - 1));
    uint2 end[2], begin[2];  // [high, residual]: last 8 bytes of unit u, first 8 of unit u + 1
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      convert(v[r].x, v[r].y, r == 0 ? end[0].x : end[0].y, r == 0 ? end[1].x : end[1].y);
      convert(v[r].z, v[r].w, r == 0 ? begin[0].x : begin[0].y, r == 0 ? begin[1].x : begin[1].y);
    }
    // Eight lanes' 8-byte pieces, 16 bytes apart, take every other pair of banks; the next eight lanes write their
    // other piece meanwhile, which takes the rest.
    const bool swap = (threadIdx.x & 8) != 0;
    const int position = to.slot * p.pitch + u;
    unsigned char* at = unit(plane, position);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool upper = (half == 0) == swap;  // the piece that begins unit u + 1
      const bool exists = upper ? u + 1 < p.pitch : u >= 0;
      if (!exists) continue;
      unsigned char* piece = at + (upper ? 16 : 8);
      const bool mirrored = position + (upper ? 1 : 0) < p.mirror_units;
#pragma unroll
      for (int part = 0; part < (M::split ? 2 : 1); ++part) {
        const uint2 value = upper ? begin[part] : end[part];
        unsigned char* target = piece + part * residual_offset();
        *reinterpret_cast<uint2*>(target) = value;
        if (mirrored) *reinterpret_cast<uint2*>(target + p.ring_rows * p.pitch * unit_bytes) = value;
      }
    }
  }

  /// Any geometry: one unit, value by value.
  template <int stride>
  __device__ __forceinline__ void load_unit(const RingRow& to, int plane, int u, float (&v)[8]) const {
    const int phase = plane / p.channels, channel = plane - phase * p.channels;
    const int row = image_row(to, phase);
    const int column = stride * (to.first_column + u) - p.padding_width;
    const float* line = to.image + channel * p.in_height * p.in_width;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      constexpr int none = -1;
      const Tap tap = unit_tap(stride, e);
      const int y = row + tap.row, x = column + tap.column;
      const bool inside = tap.row != none && y >= 0 && y < p.in_height && x >= 0 && x < p.in_width;
      v[e] = inside ? __ldg(line + y * p.in_width + x) : 0.0f;
    }
  }

  __device__ __forceinline__ void store_unit(const RingRow& to, int plane, int u, const float (&v)[8],
                                             BadUnits& bad) const {
    RangeCheck<M> check;
#pragma unroll
    for (int e = 0; e < 8; ++e) check.see(v[e]);
    if (check.failed()) bad.add(u, u);
    uint4 high, residual;
    convert(v[0], v[1], high.x, residual.x);
    convert(v[2], v[3], high.y, residual.y);
    convert(v[4], v[5], high.z, residual.z);
    convert(v[6], v[7], high.w, residual.w);
    const int position = to.slot * p.pitch + u;
#pragma unroll
    for (int part = 0; part < (M::split ? 2 : 1); ++part) {
      unsigned char* target = unit(plane, position) + part * residual_offset();
      const uint4 value = part == 0 ? high : residual;
      *reinterpret_cast<uint4*>(target) = value;
      if (position < p.mirror_units) *reinterpret_cast<uint4*>(target + p.ring_rows * p.pitch * unit_bytes) = value;
    }
  }

  /// Stages one ring row with one warpgroup. `wait_until_free` is called after the first loads are on their way.
  template <class Wait>
  __device__ __forceinline__ BadUnits fill(const RingRow& to, int thread, Wait wait_until_free) const {
    if (p.wide_loads) return fill_wide(to, thread, wait_until_free);
    switch (p.stride) {
      case 1: return fill_units<1>(to, thread, wait_until_free);
      case 2: return fill_units<2>(to, thread, wait_until_free);
      case 3: return fill_units<3>(to, thread, wait_until_free);
      default: return fill_units<4>(to, thread, wait_until_free);
    }
  }

 private:
  template <class Wait>
  __device__ __forceinline__ BadUnits fill_wide(const RingRow& to, int thread, Wait wait_until_free) const {
    constexpr int in_flight = 3;  // AlexNet's row has 6 planes x 58 pieces = 2.7 per thread
    const int width = p.pitch + 1, count = p.phases * p.channels * width;
    BadUnits bad;
    for (int base = 0; base < count; base += 128 * in_flight) {
      float4 v[in_flight][2];
      int plane[in_flight], u[in_flight];
#pragma unroll
      for (int i = 0; i < in_flight; ++i) {
        const int task = base + 128 * i + thread;
        plane[i] = task / width;
        u[i] = task - plane[i] * width - 1;
        if (task < count) load_wide(to, plane[i], u[i], v[i]);
      }
      if (base == 0) wait_until_free();
#pragma unroll
      for (int i = 0; i < in_flight; ++i) {
        if (base + 128 * i + thread < count) store_wide(to, plane[i], u[i], v[i], bad);
      }
    }
    return bad;
  }

  template <int stride, class Wait>
  __device__ __forceinline__ BadUnits fill_units(const RingRow& to, int thread, Wait wait_until_free) const {
    constexpr int in_flight = 3;
    const int count = p.phases * p.channels * p.pitch;
    BadUnits bad;
    for (int base = 0; base < count; base += 128 * in_flight) {
      float v[in_flight][8];
      int plane[in_flight], u[in_flight];
#pragma unroll
      for (int i = 0; i < in_flight; ++i) {
        const int task = base + 128 * i + thread;
        plane[i] = task / p.pitch;
        u[i] = task - plane[i] * p.pitch;
        if (task < count) load_unit<stride>(to, plane[i], u[i], v[i]);
      }
      if (base == 0) wait_until_free();
#pragma unroll
      for (int i = 0; i < in_flight; ++i) {
        if (base + 128 * i + thread < count) store_unit(to, plane[i], u[i], v[i], bad);
      }
    }
    return bad;
  }
};

}  // namespace lamina::cuda::sm90
