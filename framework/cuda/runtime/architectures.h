#pragma once

#include <string>
#include <vector>

namespace lamina::cuda {

/// Compute capabilities that the device code was compiled for, times ten: 75, 80, 90.
std::vector<int> compiled_architectures();

/// Whether the driver can load this build's kernels on the current device. Starts the device if it is not yet in use.
bool kernels_load();

}  // namespace lamina::cuda
