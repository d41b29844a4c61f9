#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lamina/cpu/codes.h"
#include "lamina/cpu/simd.h"
#include "lamina/tensor/dtype.h"

/// What multiplies bf16 numbers on a CPU and sums the products in f32: three engines with one interface, and the same
/// interface for products of f32 and of eight bits. Around them stand a driver (convolution.h) and what moves values
/// between activations and engines (moves.h).
namespace lamina::cpu::bf16 {

/// Channels of one step of a reduction: 64 bytes of bf16, a cache line and a row of an AMX tile.
inline constexpr int step_channels = 32;

/// Some neighbouring positions times one block of filters.
///
/// The reduction is a list of steps. A step multiplies, for each position, `step_channels` values that lie side by side
/// (the last steps: 2 `pairs` of them) with as many weights of each filter, which stand in pairs: [pair, filter, 2], or
/// of f32 in order: [pair, 2, filter].
struct Tile {
  const void* input = nullptr;            // of the first position; bf16, or f32 for engines that want it widened
  const std::int64_t* offsets = nullptr;  // [steps] elements from `input` to a step's values
  std::int64_t pixel = step_channels;     // elements from one position to the next
  int steps = 0;
  int whole_steps = 0;  // those before are of 16 pairs, the others of `pairs`
  int pairs = 16;
  const void* weights = nullptr;         // of Engine::operand, 64-byte aligned: step after step
  std::int64_t weights_row = 0;          // of f32, elements from a channel's to the next one's; 0: Engine::filters
  float* sums = nullptr;                 // [positions, filters], 64-byte aligned, room for Engine::positions of them
  std::int64_t sums_row = 0;             // elements from one position to the next, a multiple of `filters`
  const Sums* codes = nullptr;           // Engine::finishes: what becomes of the sums in registers, by factors below
  const SumsEnd* end = nullptr;          // 1, and if two are added by a line
  const std::uint16_t* fetch = nullptr;  // weights that are wanted next: with each step some lines go to the L2 cache
  int fetch_lines = 0;
};

/// A step's share of Tile::fetch, which need not be there.
inline const std::uint16_t* fetch_ahead(const std::uint16_t* from, int lines) {
  constexpr int line = 32;
  for (const std::uint16_t* const end = from + lines * line; from != end; from += line) __builtin_prefetch(from, 0, 2);
  return from;
}

enum class Unit { amx, dot, multiply_add };

struct Engine {
  Unit unit;
  DType operand;                       // what it multiplies: bf16, f32, or u8 or i8 with weights of i8
  InstructionSet set;                  // of what surrounds it; multiply_add: of the unit too
  std::string_view what;               // for people
  int filters;                         // of a block
  int positions;                       // the most of a tile
  bool widened = false;                // its input is f32
  bool any_pixel = true;               // Tile::pixel may be other than step_channels
  bool finishes = false;               // tiles become codes where Tile::codes is there
  int shift = 0;                       // u8 and i8: what it multiplies is that much more than its input
  double rate;                         // multiply-adds that a core starts in a clock cycle
  std::int64_t cache = 1 << 20;        // bytes of an L2 cache where it is
  void (*begin)(int pairs) = nullptr;  // before the first tile in a thread, whose steps are of as many pairs; or null
  void (*end)() = nullptr;             // after the last
  void (*multiply)(const Tile& tile, int positions);
};

/// Those of an operand that this machine runs, the fastest first; the last one is plain C++. The sums of f32 are of
/// chains as long as docs/inside/precision.md allows, those of u8 and i8 are i32.
std::span<const Engine> engines(DType operand);
/// Whether the description has the unit.
bool has_unit(const DeviceDescription& device, Unit unit, DType operand);
/// The fastest of a unit's that need no more than the instructions described, or whatever comes next here.
const Engine& engine_of(Unit unit, DType operand, const DeviceDescription& device);
/// The fastest of all that the description has.
const Engine& best_engine(const DeviceDescription& device, DType operand = DType::bf16);

/// The engines of each unit, whether this machine runs them or not; empty where nobody could.
std::span<const Engine> amx_engines();
std::span<const Engine> dot_engines();
std::span<const Engine> neon_dot_engines();
std::span<const Engine> multiply_add_engines();
std::span<const Engine> int8_multiply_add_engines();

}  // namespace lamina::cpu::bf16
