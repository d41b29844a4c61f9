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
  Bytes result;
#pragma unroll
  for (int i = 0; i < count; i += 2) {
    std::uint32_t code[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      code[j] = rounded(__fmul_rn(__int2float_rn(sum[i + j]), factor[i + j]), ends.end.low, ends.end.high, zero);
      if (ends.table != nullptr) code[j] = __ldg(ends.table + (code[j] & 0xffu));
      if (adds) code[j] = again.code<false>(__fadd_rn(own(code[j], 0), other(added.values[i / 2], j)));
    }
    result.values[i / 2] = static_cast<std::uint16_t>(__byte_perm(code[0], code[1], 0x0040));
  }
  return result;
}

}  // namespace lamina::cuda::eight_bits
