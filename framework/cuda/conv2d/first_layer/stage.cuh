#pragma once

#include "lamina/cuda/conv2d/first_layer/octet.cuh"
#include "lamina/cuda/conv2d/first_layer/walk.cuh"
#include "lamina/cuda/ptx/barrier.cuh"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/ptx/copy_word.cuh"

/// Staging: rows of the image become 16-bit units in the ring, laid out so that wgmma reads windows in place.
///
/// Ring row r of plane (phase, channel) holds the units of image rows  stride * r + phase - padding ...  One unit is
/// what one output pixel takes from them: `stride` columns of 8 / stride rows, 16 bytes. The next pixel's unit is the
/// next 16 bytes, so 64 pixels' operand rows for one unit of K are 1,024 consecutive bytes, and a window's next
/// column unit is the same run 16 bytes on: overlapping core matrices instead of unfolded columns.
///
/// Image rows arrive in shared memory asynchronously, a few ring rows ahead (RawRows); one warpgroup converts them.
namespace lamina::cuda::first_layer {

/// The units [low, high] of a ring row in which some value failed the range check, and whether one was too large, as
/// one word; low > high: none failed.
struct BadUnits {
  static constexpr std::uint32_t none = 0xFFFF0000u, large = 0x8000u;
  std::uint32_t low = 0xFFFF, high = 0, too_large = 0;

  __device__ __forceinline__ void add(int first, int last, bool is_too_large) {
    low = min(low, static_cast<std::uint32_t>(max(first, 0)));
    high = max(high, static_cast<std::uint32_t>(last));
    if (is_too_large) too_large = large;
  }
  /// Of a whole warp.
  __device__ __forceinline__ std::uint32_t word() const {
    constexpr unsigned all = 0xFFFFFFFFu;
    if (!__any_sync(all, low <= high)) return none;
    BadUnits sum = *this;
    for (int distance = 16; distance > 0; distance /= 2) {
      sum.low = min(sum.low, __shfl_xor_sync(all, sum.low, distance));
      sum.high = max(sum.high, __shfl_xor_sync(all, sum.high, distance));
      sum.too_large |= __shfl_xor_sync(all, sum.too_large, distance);
    }
    return sum.low << 16 | sum.high | sum.too_large;
  }
  __device__ __forceinline__ static bool any(const uint4& words) {
    return words.x != none || words.y != none || words.z != none || words.w != none;
  }
};

/// Bytes from the word in which an image row begins to the row itself: copies are of whole words.
__device__ __forceinline__ int line_shift(const Params& p, int line) { return 2 * (line & p.odd_lines); }

/// The image rows of one ring row, in flight: [raw_planes][raw_rows][raw_line_bytes]. What lies outside the image is
/// not copied, and not read either. Where whole rows are staged a plane's rows are one run of memory, and one copy.
struct RawRows {
  const Params& p;
  unsigned char* slots;   // [Team::raw_slots], this warpgroup's
  std::uint64_t* landed;  // likewise; arrivals: 4 warps, or 128 threads
  int thread;

  __device__ __forceinline__ static int arrivals(const Params& p) { return p.bulk_rows ? 4 : 128; }

  /// The first column that is staged: at 16 bytes in its row, at or before the first that is needed.
  __device__ __forceinline__ int first_column(const RowWalk& row) const {
    return p.contiguous ? 0 : (row.segment.first_column * p.stride - p.padding_width) & -p.raw_align;
  }
  __device__ __forceinline__ unsigned char* slot(int index) const {
    return slots + index * p.raw_planes * p.raw_rows * p.raw_line_bytes;
  }

  __device__ __forceinline__ void fetch(const RowWalk& row, int index) const {
    const int first = first_column(row), left = max(first, 0);
    const int line_bytes = p.in_width * p.raw_column_bytes;
    // Of a row: what a staged line holds, which is whole 16 bytes as TMA wants them, or what is left of the image.
    const int bytes = min(p.raw_line_bytes - 2 * p.odd_lines - (left - first) * p.raw_column_bytes,
                          line_bytes - left * p.raw_column_bytes);
    const int top = p.stride * row.number() - p.padding_height;
    const int begin = max(-top, 0), end = min(p.in_height - top, p.raw_rows);  // of the raw rows, in the image
    const unsigned char* from = static_cast<const unsigned char*>(p.input) +
                                row.segment.image * (p.raw_planes * p.in_height) * line_bytes +
                                (top + begin) * line_bytes + left * p.raw_column_bytes;
    unsigned char* to = slot(index) + begin * p.raw_line_bytes + (left - first) * p.raw_column_bytes;
    if (p.bulk_rows) {
      const int plane = thread >> 5;  // a warp each
      if ((thread & 31) != 0) return;
      const bool any = plane < p.raw_planes && end > begin && bytes > 0;
      const std::uint32_t all = any ? (end - begin) * bytes : 0;
      ptx::barrier_arrive_expect(&landed[index], all);
      if (!any) return;
      from += plane * p.in_height * line_bytes;
      to += plane * p.raw_rows * p.raw_line_bytes;
      if (p.contiguous) return ptx::bulk_load(to, from, all, &landed[index]);
#pragma unroll 1
      for (int r = begin; r < end; ++r, from += line_bytes, to += p.raw_line_bytes) {
        ptx::bulk_load(to, from, bytes, &landed[index]);
      }
    } else {
      std::uint32_t raw = ptx::shared_address(to);
      int line = static_cast<int>(row.segment.image) * p.raw_planes * p.in_height + top + begin;
#pragma unroll 1
      for (int plane = 0; plane < p.raw_planes; ++plane) {
#pragma unroll 1
        for (int r = 0; r < end - begin; ++r) {
          const int shift = line_shift(p, line + r);
#pragma unroll 1
          for (int at = 4 * thread; at < bytes + shift; at += 4 * 128) {
            ptx::copy_async_word(raw + r * p.raw_line_bytes + at, from + r * line_bytes - shift + at,
                                 min(4, bytes + shift - at));
          }
        }
        line += p.in_height, from += p.in_height * line_bytes, raw += p.raw_rows * p.raw_line_bytes;
      }
      ptx::barrier_arrive_when_copied(&landed[index]);
    }
  }
};

/// What one thread converts of a ring row: the same for every row of a strip.
///   wide:  four columns of both rows of a unit. With a padding of 2 (mod 4) their left halves end unit u and their
///          right halves begin unit u + 1, 8 bytes each; u = -1 is the piece before the first unit.
///   other: the eight values of one unit.
struct Piece {
  int source;  // bytes into a raw slot
  int phase_row;
  int line;  // image rows from the strip's image to its plane and phase row
  int unit;
  std::uint32_t target;  // bytes from the slot's first unit to unit `unit`
  bool inside;           // its columns are the image's
  bool left, right;      // wide: the halves that exist; otherwise both say whether the piece does
};

template <class M, bool wide, class In>
struct Stager {
  static constexpr int pieces = 3;  // AlexNet's row has 6 planes x 58 pieces = 2.7 per thread
  static constexpr int parts = M::split ? 2 : 1;

  const Params& p;
  std::uint32_t ring;  // shared address
  int thread;          // of the warpgroup that stages
  Piece piece[pieces];
  int prepared_column = -1;

  __device__ __forceinline__ Stager(const Params& params, std::uint32_t ring_address, int thread_index)
      : p(params), ring(ring_address), thread(thread_index) {}

  /// Works out the pieces of a strip's rows, where they fit `piece`.
  __device__ __forceinline__ void prepare_strip(int first_column, int raw_column) {
    const int count = p.phases * p.channels * (wide ? p.pitch + 1 : p.pitch);
#pragma unroll
    for (int i = 0; i < pieces; ++i) prepare(piece[i], 128 * i + thread, count, first_column, raw_column);
    prepared_column = first_column;
  }

  /// Converts the raw rows of one ring row.
  __device__ __forceinline__ BadUnits convert_row(const RowWalk& row, const unsigned char* raw, int raw_column,
                                                  int slot) {
    const int count = p.phases * p.channels * (wide ? p.pitch + 1 : p.pitch);
    const int top = p.stride * row.number() - p.padding_height;
    BadUnits bad;
    for (int base = 0; base < count; base += 128 * pieces) {
      if (count > 128 * pieces || prepared_column != row.segment.first_column) {
#pragma unroll
        for (int i = 0; i < pieces; ++i) {
          prepare(piece[i], base + 128 * i + thread, count, row.segment.first_column, raw_column);
        }
        prepared_column = row.segment.first_column;
      }
      Octet<M, In> values[pieces];
#pragma unroll
      for (int i = 0; i < pieces; ++i) load(piece[i], row, top, raw, values[i]);
#pragma unroll
      for (int i = 0; i < pieces; ++i) {
        if (const auto check = values[i].check(); check.failed()) {
          bad.add(piece[i].unit, min(piece[i].unit + (wide ? 1 : 0), p.pitch - 1), check.too_large());
        }
        std::uint32_t word[parts][4];
        values[i].operands(word);
        store(piece[i], slot * p.pitch, word);
      }
    }
    return bad;
  }

 private:
  __device__ __forceinline__ void prepare(Piece& it, int task, int count, int first_column, int raw_column) const {
    const int plane = (wide ? p.by_pieces : p.by_pitch).divide(task);
    const int u = wide ? task - plane * (p.pitch + 1) - 1 : task - plane * p.pitch;
    int phase = 0;
    while ((phase + 1) * p.channels <= plane && phase + 1 < p.phases) ++phase;
    const int column = p.stride * (first_column + u) - p.padding_width + (wide ? 2 : 0);
    const bool exists = task < count;
    it.unit = u;
    it.phase_row = p.phase_row[phase];
    it.inside = exists && column >= (wide ? 0 : 1 - p.stride) && column < p.in_width;
    it.left = exists && u >= 0;
    it.right = exists && (!wide || u + 1 < p.pitch);
    const int channel = plane - phase * p.channels;
    it.line = channel * (p.raw_planes == 1 ? 0 : p.in_height) + it.phase_row;
    it.source =
        channel * p.raw_channel_bytes + it.phase_row * p.raw_line_bytes + (column - raw_column) * p.raw_column_bytes;
    it.target = static_cast<std::uint32_t>(plane * p.plane_units + u) * unit_bytes;
  }

  __device__ __forceinline__ void load(const Piece& it, const RowWalk& at, int top, const unsigned char* raw,
                                       Octet<M, In>& values) const {
    const int row = top + it.phase_row;
    const unsigned char* from = raw + it.source;
    values.clear();
    if constexpr (wide) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (it.inside && static_cast<unsigned>(row + r) < static_cast<unsigned>(p.in_height)) {
          values.take_line(r, from + r * p.raw_line_bytes);
        }
      }
    } else {
      const int column = p.stride * (it.unit + at.segment.first_column) - p.padding_width;
      const int line = static_cast<int>(at.segment.image) * p.raw_planes * p.in_height + top + it.line;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const Tap tap = p.tap[e];
        if (it.inside && tap.row >= 0 && static_cast<unsigned>(row + tap.row) < static_cast<unsigned>(p.in_height) &&
            static_cast<unsigned>(column + tap.column) < static_cast<unsigned>(p.in_width)) {
          values.take(e, from + p.tap_bytes[e] + (sizeof(In) == 2 ? line_shift(p, line + tap.row) : 0));
        }
      }
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
        ptx::store_shared(at + (swap ? 16 : 8), swap ? r : l, swap ? has_right : has_left);
        ptx::store_shared(at + (swap ? 8 : 16), swap ? l : r, swap ? has_left : has_right);
      } else {
        ptx::store_shared(at, make_uint4(word[part][0], word[part][1], word[part][2], word[part][3]), left && it.left);
      }
    }
  }
};

}  // namespace lamina::cuda::first_layer
