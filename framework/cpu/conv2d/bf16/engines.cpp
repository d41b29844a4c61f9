#include <vector>

#include "lamina/cpu/conv2d/bf16/engine.h"

namespace lamina::cpu::bf16 {
namespace {

bool has(const DeviceDescription& device, const Engine& engine) {
  if (engine.set < device.instructions) return false;
  return engine.unit == Unit::amx ? device.amx_bf16 : engine.unit == Unit::dot ? device.avx512_bf16 : true;
}

std::vector<Engine> those_here() {
  std::vector<Engine> result;
  const DeviceDescription here = describe(Device::cpu());
  for (const auto& some : {amx_engines(), dot_engines(), multiply_add_engines()}) {
    for (const Engine& engine : some) {
      if (has(here, engine)) result.push_back(engine);
    }
  }
  return result;
}

}  // namespace

std::span<const Engine> engines() {
  static const std::vector<Engine> here = those_here();
  return here;
}

const Engine& best_engine(const DeviceDescription& device) {
  for (const Engine& engine : engines()) {
    if (has(device, engine)) return engine;
  }
  return engines().back();
}

}  // namespace lamina::cpu::bf16
