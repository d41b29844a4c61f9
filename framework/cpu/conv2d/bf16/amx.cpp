// AMX: tiles of 16 rows of 64 bytes. 2 x 2 of them hold the sums of 32 positions and 32 filters; two more hold the
// values of the positions and two the weights, and each is used twice. A step is 4 products of 16 cycles and 4 loads of
// 1 KB.
//
// Source: Intel, "Intel 64 and IA-32 Architectures Optimization Reference Manual", chapter on AMX.

#include "lamina/cpu/conv2d/bf16/amx.h"

namespace lamina::cpu::bf16 {

std::span<const Engine> amx_engines() {
#if defined(__x86_64__)
  return amx_engines_of<Tiles>("AMX");
#else
  return {};
#endif
}

}  // namespace lamina::cpu::bf16
