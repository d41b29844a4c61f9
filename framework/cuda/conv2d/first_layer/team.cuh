#pragma once

#include "lamina/cuda/conv2d/first_layer/modes.cuh"
#include "lamina/cuda/conv2d/first_layer/tile.cuh"

/// What the warpgroups of a block are, and what they tell each other through shared memory.
namespace lamina::cuda::first_layer {

/// Warpgroups of a block, and the registers that their threads get.
template <Precision precision>
struct Team {
  static constexpr int staging = 2, computing = 2;  // and one that stores
  static constexpr int raw_slots = 2;               // per staging warpgroup: ring rows on their way
  static constexpr int computing_registers = 128, other_registers = 72;
  static constexpr int threads = 128 * (staging + computing + 1);
};
/// Three sets of accumulators (see multiply): fewer threads with more registers.
template <>
struct Team<Precision::fp32> {
  static constexpr int staging = 1, computing = 2, raw_slots = 2;
  static constexpr int computing_registers = 176, other_registers = 80;
  static constexpr int threads = 128 * (staging + computing + 1);
};

/// Registers change hands within what the block is launched with; a warpgroup that asks for more would wait for ever.
template <Precision precision>
constexpr bool registers_suffice() {
  using T = Team<precision>;
  const int at_launch = 65536 / T::threads / 8 * 8;
  return 128 * (T::computing * T::computing_registers + (T::staging + 1) * T::other_registers) <=
         T::threads * at_launch;
}
static_assert(registers_suffice<Precision::fp16>() && registers_suffice<Precision::fp32>());
static_assert(pool_buffers == 4, "barriers of buffers and of rows in flight are set up together");

inline constexpr int staging_barrier = 8;  ///< named barriers 8, 9 join the staging warpgroups, 1, 2, 3 the computing

/// Columns of B: the filters, and behind them their residuals where operands are split.
template <Precision precision, int filters>
inline constexpr int columns = Mode<precision>::split ? 2 * filters : filters;

struct alignas(16) SharedControl {
  std::uint64_t weights_landed;
  std::uint64_t raw_landed[4];  // of all staging warpgroups
  std::uint64_t row_full[max_ring_rows];
  std::uint64_t row_free[max_ring_rows];
  uint4 bad_units[max_ring_rows];  // a word per staging warp
  std::uint64_t buffer_full[pool_buffers], buffer_free[pool_buffers];
  PixelPlaces places[pool_buffers];  // in the tile to come
  float2 bias[96 / 2], scale[96 / 2];
};

}  // namespace lamina::cuda::first_layer
