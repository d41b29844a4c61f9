// What a kernel file says to Highway, and how it lists what came of it. Not a header of the usual kind: only files that
// Highway compiles once for each instruction set include it, first of all and behind their name:
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE and the file's name, then this header

#ifndef LAMINA_CPU_SIMD_TARGETS_H
#define LAMINA_CPU_SIMD_TARGETS_H

// Its assertions would need its library, in the sanitized and the debug build.
#define HWY_IS_DEBUG_BUILD 0

// Vectors of run-time length cannot be members of an array; SSE4 has no FMA, and AVX3_DL adds nothing for floats.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#include <hwy/detect_targets.h>

#include <array>
#include <span>

#if HWY_ARCH_X86 && (HWY_TARGETS & HWY_AVX3)
#define LAMINA_SIMD_AVX512(constant) N_AVX3::constant,
#else
#define LAMINA_SIMD_AVX512(constant)
#endif
#if HWY_ARCH_X86 && (HWY_TARGETS & HWY_AVX2)
#define LAMINA_SIMD_AVX2(constant) N_AVX2::constant,
#else
#define LAMINA_SIMD_AVX2(constant)
#endif
#if HWY_ARCH_X86 && (HWY_STATIC_TARGET == HWY_AVX3 || HWY_STATIC_TARGET == HWY_AVX2)
#define LAMINA_SIMD_BASELINE(constant)
#else
#define LAMINA_SIMD_BASELINE(constant) HWY_STATIC_DISPATCH(constant),
#endif

// The namespaces around what is compiled for one instruction set: of `space`, of the file alone, of the set.
#define LAMINA_SIMD_BEGIN(space) \
  HWY_BEFORE_NAMESPACE();        \
  namespace space {              \
  namespace {                    \
  namespace HWY_NAMESPACE {      \
  namespace hn = hwy::HWY_NAMESPACE
#define LAMINA_SIMD_END \
  }                     \
  }                     \
  }                     \
  HWY_AFTER_NAMESPACE()

// Inside them: the InstructionSet that they are compiled for.
#define LAMINA_SIMD_SET                                             \
  (HWY_TARGET == HWY_AVX3   ? ::lamina::cpu::InstructionSet::avx512 \
   : HWY_TARGET == HWY_AVX2 ? ::lamina::cpu::InstructionSet::avx2   \
   : HWY_TARGET == HWY_NEON ? ::lamina::cpu::InstructionSet::neon   \
                            : ::lamina::cpu::InstructionSet::scalar)

/// The values of a constant of the anonymous per-target namespaces, the fastest instruction set first.
#define LAMINA_SIMD_ALL(constant) LAMINA_SIMD_AVX512(constant) LAMINA_SIMD_AVX2(constant) LAMINA_SIMD_BASELINE(constant)

/// The same as a std::span, of those that this machine runs. They are kernels with a member `set`, see simd.h.
#define LAMINA_SIMD_KERNELS(constant)                                                                 \
  [] {                                                                                                \
    static constexpr std::array kernels = {LAMINA_SIMD_ALL(constant)};                                \
    return ::lamina::cpu::supported_kernels(std::span<const decltype(kernels)::value_type>(kernels)); \
  }()

#include <hwy/foreach_target.h>  // which includes the file for all sets but one

#endif
