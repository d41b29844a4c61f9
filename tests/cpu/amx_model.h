#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "lamina/cpu/conv2d/bf16/amx.h"

namespace lamina::test {

/// The instructions of AMX that the driver needs in plain C++.
struct TileModel {
  using Rows = std::array<std::array<std::uint32_t, 16>, 16>;

  static inline thread_local std::array<Rows, 8> tiles = {};
  static inline thread_local std::size_t depth = 16;

  /// LDTILECFG: values of positions are `pairs` words wide, weights as many rows high.
  static void begin(int pairs) {
    tiles = {};
    depth = static_cast<std::size_t>(pairs);
  }
  static void end() {}
  template <int t>
  static void zero() {
    tiles[t] = {};
  }
  /// TILELOADD: `stride` bytes from row to row.
  template <int t>
  static void load(const void* from, std::int64_t stride) {
    const std::size_t height = t == 6 || t == 7 ? depth : 16, width = t == 4 || t == 5 ? depth : 16;
    for (std::size_t row = 0; row < height; ++row, from = at(from, stride)) {
      std::memcpy(tiles[t][row].data(), from, 4 * width);
    }
  }
  /// TILESTORED
  template <int t>
  static void store(void* to, std::int64_t stride) {
    for (const auto& row : tiles[t]) {
      std::memcpy(to, row.data(), 64);
      to = at(to, stride);
    }
  }
  /// TDPBF16PS: c[m][n] += a[m][2k] b[k][2n] + a[m][2k + 1] b[k][2n + 1], k = 0 ... depth - 1. TDPBUSD and TDPBSSD the
  /// same of fours of bytes, in i32 that wraps.
  template <DType of, int c, int a, int b>
  static void multiply() {
    if constexpr (of != DType::bf16) {
      for (std::size_t m = 0; m < 16; ++m) {
        for (std::size_t n = 0; n < 16; ++n) {
          for (std::size_t k = 0; k < depth; ++k) {
            for (int byte = 0; byte < 32; byte += 8) {
              const auto x = static_cast<std::uint8_t>(tiles[a][m][k] >> byte);
              const int value = of == DType::u8 ? int{x} : int{static_cast<std::int8_t>(x)};
              tiles[c][m][n] += static_cast<std::uint32_t>(value * static_cast<std::int8_t>(tiles[b][k][n] >> byte));
            }
          }
        }
      }
      return;
    }
    for (std::size_t m = 0; m < 16; ++m) {
      for (std::size_t n = 0; n < 16; ++n) {
        float sum = number(tiles[c][m][n]);
        for (std::size_t k = 0; k < depth; ++k) {
          const std::uint32_t x = tiles[a][m][k], y = tiles[b][k][n];
          sum = flushed(static_cast<float>(sum + product(x << 16, y << 16)));
          sum = flushed(static_cast<float>(sum + product(x & 0xffff0000u, y & 0xffff0000u)));
        }
        std::memcpy(&tiles[c][m][n], &sum, sizeof sum);
      }
    }
  }

 private:
  template <class T>
  static T* at(T* base, std::int64_t bytes) {
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    return static_cast<Byte*>(base) + bytes;
  }
  /// Subnormal numbers count as 0.
  static float flushed(float x) { return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x; }
  static float number(std::uint32_t bits) { return flushed(std::bit_cast<float>(bits)); }
  /// Exact; the sum of it and a float is rounded twice, which is once in all but 1 of 2^29 cases.
  static double product(std::uint32_t x, std::uint32_t y) {
    return static_cast<double>(number(x)) * static_cast<double>(number(y));
  }
};

/// AMX's driver over that model.
inline std::span<const cpu::bf16::Engine> amx_models() {
  return cpu::bf16::amx_engines_of<TileModel>("a model of AMX");
}

}  // namespace lamina::test
