#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "lamina/tensor/dtype.h"

/// The instructions of AMX that bf16 needs, and a model of them in plain C++: numbers of tiles are template arguments.
/// Tiles are of 16 rows of 64 bytes, but for fewer than 32 channels: then 4 and 5, values of positions, have shorter
/// rows and 6 and 7, weights, fewer rows.
namespace lamina::cpu::bf16 {

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

#if defined(__x86_64__)
/// In assembly, since the compilers' own functions take literals only, no template arguments.
struct Tiles {
  static void begin(int pairs) {
    struct alignas(64) Configuration {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static_assert(sizeof(Configuration) == 64);
    Configuration configuration;
    configuration.row_bytes[4] = configuration.row_bytes[5] = static_cast<std::uint16_t>(4 * pairs);
    configuration.rows[6] = configuration.rows[7] = static_cast<std::uint8_t>(pairs);
    __asm__ volatile("ldtilecfg %0" ::"m"(configuration));
  }
  static void end() { __asm__ volatile("tilerelease"); }
  template <int t>
  static void zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(t));
  }
  template <int t>
  static void load(const void* from, std::int64_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(t) : "memory");
  }
  template <int t>
  static void store(void* to, std::int64_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(t) : "memory");
  }
  /// Of bf16, or of u8 or i8 with weights of i8.
  template <DType of, int c, int a, int b>
  static void multiply() {
    if constexpr (of == DType::u8) {
      __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
    } else if constexpr (of == DType::i8) {
      __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
    } else {
      __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
    }
  }
};
#endif

}  // namespace lamina::cpu::bf16
