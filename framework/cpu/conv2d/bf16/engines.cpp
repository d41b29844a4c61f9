#include <algorithm>
#include <vector>

#include "lamina/cpu/conv2d/bf16/engine.h"

namespace lamina::cpu::bf16 {
namespace {

/// By operand.
std::vector<Engine> those_here() {
  std::vector<Engine> result;
  const DeviceDescription here = describe(Device::cpu());
  for (const auto& some :
       {amx_engines(), dot_engines(), neon_dot_engines(), multiply_add_engines(), int8_multiply_add_engines()}) {
    std::ranges::copy_if(some, std::back_inserter(result), [&](const Engine& engine) {
      return has_unit(here, engine.unit, engine.operand) && supported(engine.set);
    });
  }
  std::ranges::stable_sort(result, {}, &Engine::operand);
  return result;
}

}  // namespace

bool has_unit(const DeviceDescription& device, Unit unit, DType operand) {
  if (unit == Unit::multiply_add) return true;
  const bool narrow = operand == DType::bf16;
  if (unit == Unit::dot && device.neon_dot) return !narrow && operand != DType::f32;
  if (device.instructions != InstructionSet::avx512 || operand == DType::f32) return false;
  if (unit == Unit::amx) return narrow ? device.amx_bf16 : device.amx_int8;
  return narrow ? device.avx512_bf16 : device.avx512_vnni;
}

std::span<const Engine> engines(DType operand) {
  static const std::vector<Engine> here = those_here();
  return {std::ranges::lower_bound(here, operand, {}, &Engine::operand),
          std::ranges::upper_bound(here, operand, {}, &Engine::operand)};
}

const Engine& engine_of(Unit unit, DType operand, const DeviceDescription& device) {
  for (const Engine& engine : engines(operand)) {
    if (engine.unit >= unit && engine.set >= device.instructions) return engine;
  }
  return engines(operand).back();
}

const Engine& best_engine(const DeviceDescription& device, DType operand) {
  for (const Unit unit : {Unit::amx, Unit::dot}) {
    if (has_unit(device, unit, operand)) return engine_of(unit, operand, device);
  }
  return engine_of(Unit::multiply_add, operand, device);
}

}  // namespace lamina::cpu::bf16
