#pragma once

#include <span>

#include "lamina/kernel/device_description.h"

/// Kernels that are compiled once for each instruction set, and chosen by the processor at run time. Highway's own
/// dispatch would leave its library to the final link of every program that uses Lamina.
namespace lamina::cpu {

using lamina::InstructionSet;

/// Whether this machine runs it.
inline bool supported([[maybe_unused]] InstructionSet set) {
#if defined(__x86_64__) || defined(__i386__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2");  // and F16C, which no AVX2 processor lacks
  if (set == InstructionSet::avx2) return avx2;
  if (set == InstructionSet::avx512) {
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd");
  }
#endif
  return true;
}

/// Whether this machine runs AVX512-BF16, fast or not: a DeviceDescription says so only if it pays.
bool supports_avx512_bf16();

/// Of kernels with a member `set`, the fastest first: those from the first that this machine runs.
template <class Kernel>
std::span<const Kernel> supported_kernels(std::span<const Kernel> kernels) {
  while (!supported(kernels.front().set)) kernels = kernels.subspan(1);
  return kernels;
}

/// The fastest of them that needs no more than the instructions described.
template <class Kernel>
const Kernel& best_kernel(std::span<const Kernel> kernels, const DeviceDescription& device) {
  for (const Kernel& kernel : kernels) {
    if (kernel.set >= device.instructions) return kernel;
  }
  return kernels.back();
}

}  // namespace lamina::cpu
