#include <vector>

#include "lamina/cpu/conv2d/bf16/engine.h"

namespace lamina::cpu::bf16 {
namespace {

std::vector<Engine> those_here() {
  std::vector<Engine> result;
  const DeviceDescription here = describe(Device::cpu());
  for (const auto& some : {amx_engines(), dot_engines(), multiply_add_engines()}) {
    for (const Engine& engine : some) {
      if (has_unit(here, engine.unit) && engine.set >= here.instructions) result.push_back(engine);
    }
  }
  return result;
}

}  // namespace

bool has_unit(const DeviceDescription& device, Unit unit) {
  if (unit == Unit::multiply_add) return true;
  return device.instructions == InstructionSet::avx512 && (unit == Unit::amx ? device.amx_bf16 : device.avx512_bf16);
}

std::span<const Engine> engines() {
  static const std::vector<Engine> here = those_here();
  return here;
}

const Engine& engine_of(Unit unit, const DeviceDescription& device) {
  for (const Engine& engine : engines()) {
    if (engine.unit >= unit && engine.set >= device.instructions) return engine;
  }
  return engines().back();
}

const Engine& f32_engine(const DeviceDescription& device) { return best_kernel(f32_engines(), device); }

const Engine& best_engine(const DeviceDescription& device) {
  for (const Unit unit : {Unit::amx, Unit::dot}) {
    if (has_unit(device, unit)) return engine_of(unit, device);
  }
  return engine_of(Unit::multiply_add, device);
}

}  // namespace lamina::cpu::bf16
