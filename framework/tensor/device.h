#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/base/export.h"

namespace lamina {

enum class DeviceType { cpu, cuda };

/// Where a tensor lives and where a plan runs: the CPU, or one CUDA device.
struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;

  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(int index = 0) { return {DeviceType::cuda, index}; }

  bool is_cpu() const { return type == DeviceType::cpu; }
  bool is_cuda() const { return type == DeviceType::cuda; }
  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu", "cuda:0".
LAMINA_API std::string to_string(Device device);
LAMINA_API std::ostream& operator<<(std::ostream& out, Device device);

/// Reads "auto" (= best_device()), "cpu", "cuda" or "cuda:1". Throws Error for any other text. Also throws Error, with
/// the reason, for a CUDA device that cannot be used here.
LAMINA_API Device parse_device(std::string_view text);

/// Reads one device or several different ones: "cuda:0,cuda:2". "cuda:all" is every GPU that this build can use here.
/// Throws Error as `parse_device` does, and if there is none.
LAMINA_API std::vector<Device> parse_devices(std::string_view text);

/// CUDA device 0 if this build can use it, else the CPU. Never throws.
LAMINA_API Device best_device() noexcept;

}  // namespace lamina
