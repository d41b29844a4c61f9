#pragma once

#include <cstdint>

#include "lamina/cpu/conv2d/bf16/engine.h"
#include "lamina/tensor/dtype.h"

/// Matrices that a product reads on its right, keys and values of attention among them, as an engine has its weights:
/// [filters / Engine::filters][step][pair][filter][2].
namespace lamina::cpu::bf16 {

/// How the terms of a product are paired.
enum class Pairs {
  in_order,  // neighbours
  halves     // a step's first with its seventeenth, and so on: AttentionRows::bf16_place
};

/// Steps of step_channels terms; the last one has `pairs` pairs, those before 16.
struct Steps {
  std::int64_t steps, whole;
  int pairs;

  Steps(const Engine& engine, std::int64_t terms, Pairs order);  // terms > 0
};

/// Numbers of a block of Engine::filters keys of `depth` elements, a multiple of 32.
std::int64_t key_panel(const Engine& engine, std::int64_t depth);
/// `count` <= Engine::filters keys, `row` elements apart; zeros beyond.
void pack_keys(const Engine& engine, const bfloat16* keys, std::int64_t row, std::int64_t count, std::int64_t depth,
               std::uint16_t* packed);

/// Numbers of a block of Engine::filters columns of `positions` values, and of one step of it.
std::int64_t value_step(const Engine& engine);
std::int64_t value_panel(const Engine& engine, std::int64_t positions);
/// `count` <= Engine::filters columns of `positions` rows, `row` elements apart; zeros beyond.
void pack_values(const Engine& engine, const bfloat16* values, std::int64_t row, std::int64_t count,
                 std::int64_t positions, Pairs pairs, std::uint16_t* packed);

}  // namespace lamina::cpu::bf16
