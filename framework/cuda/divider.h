#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace lamina::cuda {

/// Division by a number that stays, without dividing: of numbers below 2^31, by one of 1 to 2^31 (Granlund and
/// Montgomery, "Division by invariant integers using multiplication", 1994).
struct Divider {
  std::uint32_t magic = 0, shift = 0;

  Divider() = default;
  explicit Divider(std::int64_t divisor) {
    divisor = divisor < 1 ? 1 : divisor;  // of an empty array, which nobody walks over
    while (shift < 31 && (std::int64_t{1} << shift) < divisor) ++shift;
    const auto d = static_cast<std::uint64_t>(divisor);
    magic = static_cast<std::uint32_t>(((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - d)) / d + 1);
  }

  __host__ __device__ std::uint32_t quotient(std::uint32_t n) const {
    return (static_cast<std::uint32_t>(std::uint64_t{n} * magic >> 32) + n) >> shift;
  }
};

}  // namespace lamina::cuda
