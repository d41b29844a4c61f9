#include "lamina/cpu/simd.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace lamina {
namespace {

#if defined(__x86_64__)
/// Intel's processors take several times as long for one VDPBF16PS as for the multiply-adds that it stands for; what
/// has no AMX beside it is faster without.
bool is_intel() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0, &a, &b, &c, &d) != 0 && b == signature_INTEL_ebx;
}

/// Whether the system saves the tiles' state: bits 17 and 18 of XCR0.
bool saves_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c >> 27 & 1) == 0) return false;  // XGETBV
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low >> 17 & 3) == 3;
}

/// `bit` of EDX: 22 of bf16, 25 of eight bits.
bool has_amx(unsigned bit) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  const bool products = (d >> bit & 1) != 0, tiles = (d >> 24 & 1) != 0;
  // What surrounds the tiles is compiled for AVX-512.
  if (!products || !tiles || !cpu::supported(InstructionSet::avx512) || !saves_tiles()) return false;
#if defined(__linux__)
  // The kernel gives 8 KB of tile data to processes that ask for it only: of every thread, for as long as it lives.
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}
bool has_vnni() { return cpu::supported(InstructionSet::avx512) && __builtin_cpu_supports("avx512vnni"); }
#else
bool is_intel() { return false; }
bool has_vnni() { return false; }
bool has_amx(unsigned) { return false; }
#endif

bool has_sdot() {
#if defined(__ARM_FEATURE_DOTPROD)
  return true;
#elif defined(__aarch64__) && defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
  return false;
#endif
}

InstructionSet best_instructions() {
#if defined(__x86_64__) || defined(__i386__)
  for (const InstructionSet set : {InstructionSet::avx512, InstructionSet::avx2}) {
    if (cpu::supported(set)) return set;
  }
  return InstructionSet::scalar;
#elif defined(__aarch64__)
  return InstructionSet::neon;
#else
  return InstructionSet::scalar;
#endif
}

}  // namespace

bool cpu::supports_avx512_bf16() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return supported(InstructionSet::avx512) && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 5 & 1) != 0;
#else
  return false;
#endif
}

DeviceDescription detail::describe_cpu() {
  static const DeviceDescription here = {.device = Device::cpu(),
                                         .instructions = best_instructions(),
                                         .avx512_bf16 = cpu::supports_avx512_bf16() && !is_intel(),
                                         .amx_bf16 = has_amx(22),
                                         .avx512_vnni = has_vnni(),
                                         .amx_int8 = has_amx(25),
                                         .neon_dot = has_sdot()};
  return here;
}

}  // namespace lamina
