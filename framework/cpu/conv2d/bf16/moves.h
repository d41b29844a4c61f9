#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "lamina/cpu/simd.h"

/// Activations on their way to an engine and back.
namespace lamina::cpu::bf16 {

/// Values of positions in a row, on the way into blocks of step_channels channels.
struct Spread {
  const std::uint16_t* from = nullptr;  // of the first position; the channels of each lie side by side
  std::int64_t pixel = 0;               // elements to the next
  std::int64_t count = 0;
  int channels = 0;
  void* to = nullptr;      // [positions, step_channels] of the first block; zeros behind the last channel
  std::int64_t block = 0;  // elements to the next block
};

/// Sums on their way out: y = sum + bias [+ addend], then not below `low` and not above `high`; NaN stays NaN.
struct Write {
  const float* sums = nullptr;   // [positions, row]
  std::int64_t row = 0;          // elements; whole vectors
  const float* bias = nullptr;   // [row]
  const void* addend = nullptr;  // as `output`, or null
  void* output = nullptr;        // of the first position
  std::int64_t pixel = 0;        // elements to the next
  std::int64_t count = 0;
  int filters = 0;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
};

/// Compiled for one instruction set.
struct Moves {
  InstructionSet set;
  void (*spread)(const Spread& s);          // to bf16
  void (*spread_widened)(const Spread& s);  // to f32
  void (*write_bf16)(const Write& w);
  void (*write_f32)(const Write& w);
  void (*widen)(const std::uint16_t* from, std::int64_t count, float* to);
  void (*narrow)(const float* from, std::int64_t count, std::uint16_t* to);  // to nearest even
};

/// Those that this machine runs, the fastest first; the last one is plain C++.
std::span<const Moves> moves();

}  // namespace lamina::cpu::bf16
