#include "lamina/kernel/device_description.h"

namespace lamina {

DeviceDescription describe(Device device) {
  return device.is_cuda() ? detail::describe_cuda(device.index) : detail::describe_cpu();
}

}  // namespace lamina
