#include <algorithm>
#include <cstring>

#include "lamina/cpu/conv2d/bf16/moves.h"

namespace lamina::cpu::bf16 {
std::optional<Pointwise> written_function(const RowEpilogue& epilogue) {
  if (epilogue.rest.empty()) return Pointwise::identity;
  const Pointwise function = epilogue.rest[0].function;
  const bool known = function == Pointwise::silu || function == Pointwise::gelu || function == Pointwise::hard_swish;
  return known && epilogue.rest.size() == 1 && !epilogue.clamps() ? std::optional(function) : std::nullopt;
}

void finish(const Moves& moves, const RowEpilogue& epilogue, Write w, DType type, const void* residual, float* results,
            float* addends) {
  const bool narrow = type == DType::bf16;
  w.clamps = epilogue.clamps();
  w.low = epilogue.low, w.high = epilogue.high;
  if (const auto function = written_function(epilogue)) {
    w.addend = epilogue.adds ? residual : nullptr;
    w.function = *function;
    return narrow ? moves.write_bf16(w) : moves.write_f32(w);
  }
  const std::int64_t size = narrow ? 2 : 4, elements = w.count * w.row;
  std::fill_n(addends, elements, 0.0f);
  std::fill_n(results, elements, 0.0f);
  const auto* from = static_cast<const std::byte*>(residual);
  for (std::int64_t i = 0; residual != nullptr && i < w.count; ++i, from += w.pixel * size) {
    float* const to = addends + i * w.row;
    if (narrow) {
      moves.widen(reinterpret_cast<const bfloat16*>(from), w.filters, to);
    } else {
      std::memcpy(to, from, static_cast<std::size_t>(w.filters) * sizeof(float));
    }
  }
  Write block = w;
  block.output = results;
  block.addend = epilogue.adds ? addends : nullptr;
  block.pixel = w.row;
  moves.write_f32(block);
  apply_rest(epilogue, addends, results, elements);
  auto* to = static_cast<std::byte*>(w.output);
  for (std::int64_t i = 0; i < w.count; ++i, to += w.pixel * size) {
    const float* const result = results + i * w.row;
    if (narrow) {
      moves.narrow(result, w.filters, reinterpret_cast<bfloat16*>(to));
    } else {
      std::memcpy(to, result, static_cast<std::size_t>(w.filters) * sizeof(float));
    }
  }
}

}  // namespace lamina::cpu::bf16
