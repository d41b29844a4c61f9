#pragma once

#include <vector>

namespace lamina::cuda {

/// Compute capabilities that the device code was compiled for, times ten: 75, 80, 90.
std::vector<int> compiled_architectures();

/// Whether the kernels that need wgmma were compiled for 9.0a, the one architecture that has it.
bool compiled_for_90a();

/// Clusters of `size` blocks that the current device runs at a time where each block has a multiprocessor for itself
/// because it takes all its shared memory. Compute capability 9.0.
int clusters_at_once(int size, int shared_bytes);

/// Whether the driver can load this build's kernels on the current device. Starts the device if it is not yet in use.
bool kernels_load();

}  // namespace lamina::cuda
