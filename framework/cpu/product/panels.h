#pragma once

#include <cstdint>

#include "lamina/cpu/conv2d/bf16/engine.h"
#include "lamina/tensor/dtype.h"

/// Matrices that a product reads on its right, [terms, columns], in panels of Engine::filters columns, as an engine has
/// its weights: [columns / Engine::filters][step][pair][column][2], or of f32 [columns /
/// Engine::filters][term][column]. b of a MatMul, keys and values of attention. Numbers are of the engine's operands.
namespace lamina::cpu {

/// How the terms of a product of bf16 are paired.
enum class Pairs {
  in_order,  // neighbours
  halves     // a step's first with its seventeenth, and so on: AttentionRows::bf16_place
};

/// Steps of step_channels terms; the last one has `pairs` pairs, those before 16.
struct Steps {
  std::int64_t steps, whole;
  int pairs;

  Steps(const bf16::Engine& engine, std::int64_t terms, Pairs order);
};

/// Of a matrix whose columns have their terms side by side, as keys: the numbers of a panel, a multiple of 32.
std::int64_t column_panel(const bf16::Engine& engine, std::int64_t terms);
/// `count` <= Engine::filters of them, `stride` elements apart; zeros beyond.
void pack_columns(const bf16::Engine& engine, const bfloat16* columns, std::int64_t stride, std::int64_t count,
                  std::int64_t terms, bfloat16* packed);
void pack_columns(const bf16::Engine& engine, const float* columns, std::int64_t stride, std::int64_t count,
                  std::int64_t terms, float* packed);

/// Of a matrix whose rows, one for each term, have their columns side by side, as values: the numbers of a step of a
/// panel, and of the panel.
std::int64_t row_step(const bf16::Engine& engine);
std::int64_t row_panel(const bf16::Engine& engine, std::int64_t terms);
/// `count` <= Engine::filters columns of rows `stride` elements apart; zeros beyond.
void pack_rows(const bf16::Engine& engine, const bfloat16* rows, std::int64_t stride, std::int64_t count,
               std::int64_t terms, Pairs pairs, bfloat16* packed);
void pack_rows(const bf16::Engine& engine, const float* rows, std::int64_t stride, std::int64_t count,
               std::int64_t terms, Pairs pairs, float* packed);

}  // namespace lamina::cpu
