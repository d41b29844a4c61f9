#pragma once

#include <array>
#include <cstddef>

#include "lamina/base/export.h"
#include "lamina/tensor/device.h"

namespace lamina {

/// Vector instructions of a CPU, the widest first.
enum class InstructionSet { avx512, avx2, neon, scalar };

/// "AVX-512"
constexpr const char* name(InstructionSet set) {
  constexpr const char* names[] = {"AVX-512", "AVX2", "NEON", "scalar"};
  return names[static_cast<std::size_t>(set)];
}

/// What the choice of a kernel knows of a device, and all that it knows: with the description of another device the
/// choice is that device's, on whichever machine it is made.
struct DeviceDescription {
  static constexpr int max_cluster = 8;

  Device device;
  InstructionSet instructions = InstructionSet::scalar;  ///< of a CPU, at most
  bool avx512_bf16 = false;  ///< of a CPU: products of pairs of bf16, VDPBF16PS, that are fast
  bool amx_bf16 = false;     ///< of a CPU: products of tiles of bf16, TDPBF16PS, which the system lets this process use
  bool avx512_vnni = false;  ///< of a CPU: products of fours of u8 and i8, VPDPBUSD
  bool amx_int8 = false;     ///< of a CPU: products of tiles of them, TDPBUSD and TDPBSSD, which this process may use
  bool neon_dot = false;     ///< of a CPU: products of fours of i8, SDOT
  int architecture = 0;      ///< of a GPU: its compute capability times ten, 90 is 9.0
  bool wgmma = false;        ///< it is of 9.0, and this build has the code made for 9.0a
  int multiprocessors = 0;
  int shared_bytes = 0;                 ///< of shared memory that one block can have
  int multiprocessor_shared_bytes = 0;  ///< that a multiprocessor has
  int reserved_shared_bytes = 0;        ///< that the driver takes of it for each block
  /// Clusters of that many blocks, one block to a multiprocessor, that run at a time.
  std::array<int, max_cluster + 1> clusters{};
};

/// The device as it is. Throws Error, with the reason, for a GPU that cannot be used here.
LAMINA_API DeviceDescription describe(Device device);

namespace detail {
/// This machine's processor; framework/cpu defines it.
DeviceDescription describe_cpu();
/// Of CUDA device `index`; framework/cuda defines it, runtime/no_cuda.cpp without the toolkit.
DeviceDescription describe_cuda(int index);
/// A GPU as if it were of a lower compute capability, times ten as in DeviceDescription::architecture: the instructions
/// and the shared memory of that generation, with its own multiprocessors. What is planned for it runs on the GPU
/// itself. Source of the sizes: CUDA C++ Programming Guide, "Technical specifications per compute capability". Throws
/// Error if it is not a GPU, or of less than that.
LAMINA_API DeviceDescription limited_to(int architecture, DeviceDescription gpu);
}  // namespace detail

}  // namespace lamina
