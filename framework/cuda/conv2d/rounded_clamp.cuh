#pragma once

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/finish.h"

namespace lamina::cuda {

/// A Finish's clamp of two values of 16 bits at a time, after they were rounded: rounding keeps their order, so the
/// result is that of a clamp before. Half the instructions. sm_80.
template <class T>
class RoundedClamp {
 public:
  __device__ __forceinline__ explicit RoundedClamp(const Finish& finish)
      : low_(both(finish.low)), high_(both(finish.high)) {}

  __device__ __forceinline__ void operator()(Pack<T, 2>& pair) const {
    auto& word = reinterpret_cast<std::uint32_t&>(pair);
    if constexpr (std::is_same_v<T, __half>) {
      asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(word) : "r"(low_));
      asm("min.NaN.f16x2 %0, %0, %1;" : "+r"(word) : "r"(high_));
    } else {
      asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(word) : "r"(low_));
      asm("min.NaN.bf16x2 %0, %0, %1;" : "+r"(word) : "r"(high_));
    }
  }

 private:
  static __device__ __forceinline__ std::uint32_t both(float bound) {
    const Pack<T, 2> pair = {from_f32<T>(bound), from_f32<T>(bound)};
    return reinterpret_cast<const std::uint32_t&>(pair);
  }

  std::uint32_t low_, high_;
};

}  // namespace lamina::cuda
