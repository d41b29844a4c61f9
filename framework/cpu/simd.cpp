#include "lamina/cpu/simd.h"

namespace lamina::detail {

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

}  // namespace lamina::detail
