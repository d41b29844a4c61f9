#pragma once

#include "lamina/cuda/sm90_barrier.cuh"
#include "lamina/cuda/sm90_modes.cuh"
#include "lamina/cuda/sm90_walk.cuh"

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
};
inline constexpr std::uint32_t no_bad_units = 0xFFFF0000u;

/// What one thread loads and stores of a ring row: the same for every row of a strip.
///   wide:  one aligned float4 of a unit's two rows. With a padding of 2 (mod 4) its left halves end unit u and its
///          right halves begin unit u + 1, 8 bytes each; u = -1 is the piece before the first unit.
///   other: the eight values of one unit.
struct Piece {
  int source;  // offset from the image row that `phase 0` starts at
  int phase_row;
  int unit;
  std::uint32_t target;  // bytes from the slot's first unit to unit `unit`
  bool inside;           // its columns are the image's
  bool left, right;      // wide: the halves that exist; otherwise both say whether the piece does
};

template <class M, bool wide>
struct Stager {
  using Operand = typename M::Operand;
  static constexpr int in_flight = 3;  // AlexNet's row has 6 planes x 58 pieces = 2.7 per thread
  static constexpr int parts = M::split ? 2 : 1;

  const Params& p;
  std::uint32_t ring;  // shared address
  int thread;          // of the warpgroup that stages the row
  Piece piece[in_flight];
  int prepared_column = -1;

  __device__ __forceinline__ Stager(const Params& params, std::uint32_t ring_address, int thread_index)
      : p(params), ring(ring_address), thread(thread_index) {}

  /// Stages one ring row. `wait_until_free` is called when the first loads are on their way.
  template <class Wait>
  __device__ __forceinline__ BadUnits fill(const RowWalk& row, int slot, Wait wait_until_free) {
    const int count = p.phases * p.channels * (wide ? p.pitch + 1 : p.pitch);
    const int first_row = p.stride * row.number() - p.padding_height;
    const float* image = p.input + row.segment.image * p.channels * p.in_height * p.in_width +
                         static_cast<std::int64_t>(first_row) * p.in_width;
    BadUnits bad;
    for (int base = 0; base < count; base += 128 * in_flight) {
      if (count > 128 * in_flight || prepared_column != row.segment.first_column) {
#pragma unroll
        for (int i = 0; i < in_flight; ++i) prepare(piece[i], base + 128 * i + thread, count, row.segment.first_column);
        prepared_column = row.segment.first_column;
      }
      float v[in_flight][8];
#pragma unroll
      for (int i = 0; i < in_flight; ++i) load(piece[i], first_row, row.segment.first_column, image, v[i]);
      if (base == 0) wait_until_free();
#pragma unroll
      for (int i = 0; i < in_flight; ++i) {
        RangeCheck<M> check;
#pragma unroll
        for (int e = 0; e < 8; ++e) check.see(v[i][e]);
        if (check.failed()) bad.add(piece[i].unit, min(piece[i].unit + (wide ? 1 : 0), p.pitch - 1));
        std::uint32_t word[parts][4];
#pragma unroll
        for (int w = 0; w < 4; ++w) convert(v[i][2 * w], v[i][2 * w + 1], word[0][w], word[parts - 1][w]);
        store(piece[i], slot * p.pitch, word);
      }
    }
    return bad;
  }

 private:
  __device__ __forceinline__ void prepare(Piece& it, int task, int count, int first_column) const {
    const int plane = (wide ? p.by_pieces : p.by_pitch).divide(task);
    const int u = wide ? task - plane * (p.pitch + 1) - 1 : task - plane * p.pitch;
    int phase = 0;
    while ((phase + 1) * p.channels <= plane && phase + 1 < p.phases) ++phase;
    const int column =
        wide ? 4 * (u + first_column - (p.padding_width >> 2)) : p.stride * (u + first_column) - p.padding_width;
    const bool exists = task < count;
    it.unit = u;
    it.phase_row = p.phase_row[phase];
    it.inside = exists && column >= (wide ? 0 : 1 - p.stride) && column < p.in_width;
    it.left = exists && u >= 0;
    it.right = exists && (!wide || u + 1 < p.pitch);
    it.source = ((plane - phase * p.channels) * p.in_height + it.phase_row) * p.in_width + column;
    it.target = static_cast<std::uint32_t>(plane * p.plane_units + u) * unit_bytes;
  }

  /// In the order of unit_tap; wide: {row 0 left, row 1 left, row 0 right, row 1 right}.
  __device__ __forceinline__ void load(const Piece& it, int first_row, int first_column, const float* image,
                                       float (&v)[8]) const {
    const int row = first_row + it.phase_row;
    const float* from = image + it.source;
    if constexpr (wide) {
      float4 line[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const bool inside = it.inside && static_cast<unsigned>(row + r) < static_cast<unsigned>(p.in_height);
        line[r] = inside ? __ldg(reinterpret_cast<const float4*>(from + r * p.in_width)) : make_float4(0, 0, 0, 0);
      }
      v[0] = line[0].x, v[1] = line[0].y, v[2] = line[1].x, v[3] = line[1].y;
      v[4] = line[0].z, v[5] = line[0].w, v[6] = line[1].z, v[7] = line[1].w;
    } else {
      const int column = p.stride * (it.unit + first_column) - p.padding_width;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const Tap tap = p.tap[e];
        const bool inside = it.inside && tap.row >= 0 &&
                            static_cast<unsigned>(row + tap.row) < static_cast<unsigned>(p.in_height) &&
                            static_cast<unsigned>(column + tap.column) < static_cast<unsigned>(p.in_width);
        v[e] = inside ? __ldg(from + tap.row * p.in_width + tap.column) : 0.0f;
      }
    }
  }

  /// high and residual of two neighbouring slots (without splitting: `high` alone).
  __device__ __forceinline__ static void convert(float a, float b, std::uint32_t& high, std::uint32_t& residual) {
    if constexpr (M::scaled) a *= input_scale, b *= input_scale;
    high = Pair<Operand>::pack(a, b);
    if constexpr (M::split) {
      const float2 rounded = Pair<Operand>::unpack(high);
      residual = Pair<Operand>::pack((a - rounded.x) * residual_scale, (b - rounded.y) * residual_scale);
    }
  }

  /// A ring slot that holds some of the ring's first units is also written behind the ring's end.
  __device__ __forceinline__ void store(const Piece& it, int first_unit, const std::uint32_t (&word)[parts][4]) const {
    store_once(it, ring + first_unit * unit_bytes, true, true, word);
    if (first_unit < p.mirror_units) {
      const int unit = first_unit + it.unit;
      store_once(it, ring + (first_unit + p.ring_rows * p.pitch) * unit_bytes, unit < p.mirror_units,
                 unit + 1 < p.mirror_units, word);
    }
  }

  __device__ __forceinline__ void store_once(const Piece& it, std::uint32_t slot, bool left, bool right,
                                             const std::uint32_t (&word)[parts][4]) const {
    const std::uint32_t part_bytes = p.phases * p.channels * p.plane_units * unit_bytes;
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      const std::uint32_t at = slot + it.target + part * part_bytes;
      if constexpr (wide) {
        // Eight lanes' 8-byte pieces, 16 bytes apart, take every other pair of banks; the next eight lanes write
        // their other half meanwhile and take the rest.
        const bool swap = (thread & 8) != 0;
        const bool has_left = left && it.left, has_right = right && it.right;
        const uint2 l = make_uint2(word[part][0], word[part][1]), r = make_uint2(word[part][2], word[part][3]);
        store_shared(at + (swap ? 16 : 8), swap ? r : l, swap ? has_right : has_left);
        store_shared(at + (swap ? 8 : 16), swap ? l : r, swap ? has_left : has_right);
      } else {
        store_shared(at, make_uint4(word[part][0], word[part][1], word[part][2], word[part][3]), left && it.left);
      }
    }
  }
};

}  // namespace lamina::cuda::sm90
