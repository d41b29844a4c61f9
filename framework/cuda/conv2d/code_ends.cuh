#pragma once

#include "lamina/cuda/conv2d/code_ends.h"
#include "lamina/cuda/conv2d/eight_bits_ends.cuh"
#include "lamina/cuda/eight_bits/codes.cuh"

namespace lamina::cuda::eight_bits {

/// The codes of neighbouring filters' sums, as CodeEnds says; `others`: what they may be added to.
template <int count>
__device__ __forceinline__ Pack<std::uint16_t, count / 2> codes_of(const CodeEnds& ends, const int (&sum)[count],
                                                                   const float* factor, const void* others) {
  using Bytes = Pack<std::uint16_t, count / 2>;
  const auto zero = static_cast<std::uint32_t>(ends.end.quantization.zero_point);
  const bool adds = others != nullptr;
  const Bytes added = adds ? *static_cast<const Bytes*>(others) : Bytes();
  const Results again(ends.again);
  const Meaning own(ends.own), other(ends.others);
  std::uint32_t code[count];
#pragma unroll
  for (int i = 0; i < count; ++i) {
    code[i] = rounded(__fmul_rn(__int2float_rn(sum[i]), factor[i]), ends.end.low, ends.end.high, zero);
  }
  // Asked once for all: between questions each code would wait for the one before it.
  if (ends.table != nullptr) {
#pragma unroll
    for (int i = 0; i < count; ++i) code[i] = __ldg(ends.table + (code[i] & 0xffu));
  }
  if (adds) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      code[i] = again.code<false>(__fadd_rn(own(code[i], 0), other(added.values[i / 2], i % 2)));
    }
  }
  Bytes result;
#pragma unroll
  for (int i = 0; i < count; i += 2) {
    result.values[i / 2] = static_cast<std::uint16_t>(__byte_perm(code[i], code[i + 1], 0x0040));
  }
  return result;
}

}  // namespace lamina::cuda::eight_bits
