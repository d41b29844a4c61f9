#include "lamina/kernel/device_description.h"

namespace lamina {

DeviceDescription describe(Device device) {
  if (device.is_cuda()) return detail::describe_cuda(device.index);
  return {.device = device, .instructions = detail::best_instructions()};
}

}  // namespace lamina
