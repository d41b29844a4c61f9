#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "lamina/cpu/conv2d/bf16/engine.h"
#include "lamina/cpu/conv2d/row_epilogue.h"
#include "lamina/cpu/simd.h"
#include "lamina/tensor/dtype.h"

/// Activations on their way to an engine and back.
namespace lamina::cpu::bf16 {

/// Values of positions in a row, on the way into blocks of step_channels channels.
struct Spread {
  const void* from = nullptr;  // of the first position; the channels of each lie side by side
  std::int64_t pixel = 0;      // elements to the next
  std::int64_t count = 0;
  int channels = 0;
  const bfloat16* scale = nullptr;  // [channels] that values are multiplied by on the way, rounded again; or null
  void* to = nullptr;               // [positions, step_channels] of the first block; zeros behind the last channel
  std::int64_t block = 0;           // elements to the next block
};

/// Runs of neighbouring values, one after the other as the channels of a position, up to step_channels in all.
struct Runs {
  std::span<const bfloat16* const> from;  // each run of the first position
  std::int64_t length = 0;                // of each
  std::int64_t pixel = 0;                 // elements to the next position's
  std::int64_t count = 0;
  void* to = nullptr;  // [positions, step_channels], zeros behind the last run
};

/// Sums on their way out: y = sum + bias [+ addend], then not below `low` and not above `high`, NaN stays NaN; or
/// silu, gelu or hard_swish of that.
struct Write {
  const float* sums = nullptr;   // [count, row], readable up to whole vectors
  std::int64_t row = 0;          // elements
  const float* bias = nullptr;   // [filters], readable up to whole vectors
  const void* addend = nullptr;  // as `output`, or null
  void* output = nullptr;        // of the first position
  std::int64_t pixel = 0;        // elements to the next
  std::int64_t count = 0;
  int filters = 0;
  bool clamps = false;
  float low = 0, high = 0;
  Pointwise function = Pointwise::identity;  // if nothing clamps
};

/// Compiled for one instruction set.
struct Moves {
  InstructionSet set;
  void (*spread)(const Spread& s);          // to bf16
  void (*spread_widened)(const Spread& s);  // to f32
  void (*spread_f32)(const Spread& s);      // of f32, without factors
  void (*write_bf16)(const Write& w);
  /// The same by AVX512-BF16, which rounds to nearest even too, faster, and results below 2^-126 become 0; or null.
  void (*write_rounding)(const Write& w) = nullptr;
  void (*spread_rounding)(const Spread& s) = nullptr;
  void (*narrow_rounding)(const float* from, std::int64_t count, bfloat16* to) = nullptr;
  void (*write_f32)(const Write& w);
  void (*join)(const Runs& r);          // to bf16
  void (*join_widened)(const Runs& r);  // to f32
  /// Rows of `channels` planes, `plane` elements apart, to [count, channels].
  void (*interleave)(const bfloat16* from, std::int64_t plane, std::int64_t channels, std::int64_t count, bfloat16* to);
  void (*interleave_f32)(const float* from, std::int64_t plane, std::int64_t channels, std::int64_t count, float* to);
  bool (*finite)(const bfloat16* from, std::int64_t count);  // none of them is infinite or NaN
  void (*widen)(const bfloat16* from, std::int64_t count, float* to);
  void (*narrow)(const float* from, std::int64_t count, bfloat16* to);  // to nearest even
};

/// Those that this machine runs, the fastest first; the last one is plain C++.
std::span<const Moves> moves();

/// The fastest of them that need no more than that; if `rounding`, spread, write_bf16 and narrow are by AVX512-BF16
/// where this machine has it.
const Moves& moves_of(InstructionSet set, bool rounding);

/// What brings rows of T to an engine.
template <class T>
auto spread_of(const Moves& moves, const Engine& engine) {
  return sizeof(T) == 4 ? moves.spread_f32 : engine.widened ? moves.spread_widened : moves.spread;
}

/// What a Write does besides an addition and a clamp, if that is all of the epilogue.
std::optional<Pointwise> written_function(const RowEpilogue& epilogue);

/// Writes with a whole epilogue. `write` has neither addend nor bounds; `residual` as its output, or null. What does
/// not run in registers runs on `results` and `addends`, of write.count * write.row floats each.
void finish(const Moves& moves, const RowEpilogue& epilogue, Write write, DType output, const void* residual,
            float* results, float* addends);

}  // namespace lamina::cpu::bf16
