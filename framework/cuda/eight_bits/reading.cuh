#pragma once

#include "lamina/cuda/eight_bits/codes.cuh"
#include "lamina/cuda/eight_bits/reading.h"

namespace lamina::cuda {

__device__ __forceinline__ Meaning meaning_of(const Reading& from) {
  Meaning result;
  result.flip = from.flip, result.zero = from.zero, result.scale = from.scale;
  return result;
}

}  // namespace lamina::cuda
