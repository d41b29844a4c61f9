#include "lamina/tensor/device.h"

#include <charconv>

#include "lamina/base/error.h"
#include "lamina/tensor/device_memory.h"

namespace lamina {

std::string to_string(Device device) { return device.is_cpu() ? "cpu" : detail::concat("cuda:", device.index); }

std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

Device parse_device(std::string_view text) {
  if (text == "auto") return best_device();
  if (text == "cpu") return Device::cpu();

  int index = 0;
  bool valid = text == "cuda";
  if (text.starts_with("cuda:")) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + 5, end, index);
    valid = error == std::errc() && stop == end && index >= 0;
  }
  if (!valid) detail::fail("device: expected auto, cpu, cuda or cuda:INDEX, got \"", text, '"');
  detail::require_cuda_device(index);
  return Device::cuda(index);
}

Device best_device() noexcept { return detail::cuda_device_count() > 0 ? Device::cuda(0) : Device::cpu(); }

}  // namespace lamina
