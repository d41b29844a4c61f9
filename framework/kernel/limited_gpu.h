#pragma once

#include "lamina/kernel/device_description.h"

namespace lamina::detail {

/// A GPU as if it were of a lower compute capability, times ten as in DeviceDescription::architecture: the instructions
/// and the shared memory of that generation, with its own multiprocessors. What is planned for it runs on the GPU
/// itself. Source of the sizes: CUDA C++ Programming Guide, "Technical specifications per compute capability". Throws
/// Error if it is not a GPU, or of less than that.
LAMINA_API DeviceDescription limited_to(int architecture, DeviceDescription gpu);

}  // namespace lamina::detail
