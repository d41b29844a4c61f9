#pragma once

#include <cstddef>
#include <string>

/// What there is to compute on, for people: `lamina doctor` prints it. No CUDA type appears here.
namespace lamina::cuda {

/// One CUDA device of this host.
struct DeviceInfo {
  int index = 0;
  std::string name;       ///< "NVIDIA H200"
  int compute_major = 0;  ///< compute capability 9.0 is major 9, minor 0
  int compute_minor = 0;
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;  ///< all of it; how much is free is known only once the device is in use
  std::size_t l2_bytes = 0;
  std::size_t shared_bytes_per_block = 0;  ///< the opt-in limit
  bool usable = false;                     ///< this build holds code for it
};

/// The build and the host, as far as CUDA goes.
struct BackendInfo {
  bool built = false;           ///< compiled with the CUDA toolkit
  std::string architectures;    ///< compute capabilities compiled in: "7.5 8.0 8.6 8.9 9.0"
  std::string runtime_version;  ///< of the CUDA runtime linked in: "13.0"
  std::string driver_version;   ///< the newest CUDA that the installed driver supports; empty without a driver
  int visible_devices = 0;      ///< also those that this build cannot use
};

/// Never throws and needs no GPU.
BackendInfo backend_info();

/// Throws Error if this host has no such device.
DeviceInfo device_info(int index);

/// Whether the driver of the device makes kernels of text; some may not, or lack the library for it. In a dry run: yes.
bool driver_compiles(int index);

/// Bytes that the device has free now. Throws Error if this host has no such device.
std::size_t free_memory(int index);

/// "NVIDIA H200". Throws Error if this host has no such device.
std::string device_name(int index);

}  // namespace lamina::cuda
