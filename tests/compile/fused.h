#pragma once

#include <string>
#include <vector>

#include "lamina/compile/program.h"
#include "lamina/kernel/device_description.h"

namespace lamina::test {

/// The operations that are left, each as "module: names of what it took in".
inline std::vector<std::string> fused(const Graph& graph, const DeviceDescription& device = describe(Device::cpu()),
                                      Precision precision = Precision::fp32) {
  CompileOptions options = {.device = device.device, .batch = 2, .precision = precision, .threads = 1};
  options.description = device;
  std::vector<std::string> result;
  for (const auto& operation : detail::fuse(graph, options).operations) {
    result.push_back(std::string(operation.module->op()) + ": " + operation.fused);
  }
  return result;
}

}  // namespace lamina::test
