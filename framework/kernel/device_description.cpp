#include "lamina/kernel/device_description.h"

#include <algorithm>
#include <string>

#include "lamina/base/error.h"

namespace lamina {

DeviceDescription describe(Device device) {
  return device.is_cuda() ? detail::describe_cuda(device.index) : detail::describe_cpu();
}

namespace detail {
namespace {

/// Kilobytes of shared memory that a multiprocessor has; a block has as many, less what the driver keeps of each.
int shared_kilobytes(int architecture) {
  switch (architecture) {
    case 75: return 64;
    case 80:
    case 87: return 164;
    case 86:
    case 89: return 100;
    default: return architecture < 80 ? 96 : architecture < 120 ? 228 : 100;
  }
}

std::string version(int architecture) { return concat(architecture / 10, ".", architecture % 10); }

}  // namespace

DeviceDescription limited_to(int architecture, DeviceDescription gpu) {
  if (!gpu.device.is_cuda() || architecture > gpu.architecture) {
    fail(ErrorKind::unsupported, "architecture: expected a GPU of at least compute capability ", version(architecture),
         ", got ", to_string(gpu.device), gpu.device.is_cuda() ? concat(" of ", version(gpu.architecture)) : "");
  }
  gpu.architecture = architecture;
  gpu.wgmma = gpu.wgmma && architecture == 90;
  if (architecture < 90) gpu.clusters = {0, gpu.multiprocessors};
  gpu.reserved_shared_bytes = architecture < 80 ? 0 : 1024;
  gpu.multiprocessor_shared_bytes = std::min(gpu.multiprocessor_shared_bytes, 1024 * shared_kilobytes(architecture));
  gpu.shared_bytes = std::min(gpu.shared_bytes, gpu.multiprocessor_shared_bytes - gpu.reserved_shared_bytes);
  return gpu;
}

}  // namespace detail
}  // namespace lamina
