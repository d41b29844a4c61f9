#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

/// Exponentials and what is made of them: of float as polynomials without branches, so that loops over them are
/// vectorised, within about 2 units in the last place, for all floats, subnormal, infinite and NaN among them; of
/// double as the C library's. Coefficients are minimax fits to each function on the range that it says.
namespace lamina::cpu {

/// c[0] + c[1] x + c[2] x^2 + ...
template <std::size_t n>
inline float polynomial(float x, const float (&c)[n]) {
  float sum = c[n - 1];
  for (std::size_t i = n - 1; i-- > 0;) sum = sum * x + c[i];
  return sum;
}

/// exp(x + low) for |low| far below 1, of x that is already cut to -104 to 89: 2^n exp(r).
inline float exp_of_sum(float x, float low) {
  constexpr float shift = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded, and is in its last bits
  const float shifted = (x + low) * 1.44269504f + shift, n = shifted - shift;
  const float r = x - n * 0.693359375f - n * -2.12194440e-4f + low;  // ln 2 in two parts: the first product is exact
  constexpr float c[] = {0.5f, 1.666651508e-01f, 4.166619654e-02f, 8.369398527e-03f, 1.395126318e-03f};  // |r| < 0.35
  const float e = 1.0f + (r + r * r * polynomial(r, c));
  // In two factors, either within a float's range where the product is not.
  const auto power = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - 0x4b400000u);
  const std::int32_t half = power >> 1;
  const auto two_to = [](std::int32_t k) { return std::bit_cast<float>(static_cast<std::uint32_t>(k + 127) << 23); };
  return e * two_to(half) * two_to(power - half);
}

inline float exp_of(float x) {
  const float below = x > 89.0f ? 89.0f : x;
  return exp_of_sum(below < -104.0f ? -104.0f : below, 0.0f);
}
inline double exp_of(double x) { return std::exp(x); }

/// exp(x) - 1, for x <= 0 most of all.
inline float expm1_of(float x) {
  constexpr float c[] = {5.000000011e-01f, 1.666667029e-01f, 4.166660523e-02f,
                         8.329979347e-03f, 1.371684269e-03f, 1.646302889e-04f};  // -0.55 to 0.1
  const float small = x + x * x * polynomial(x, c), large = exp_of(x) - 1.0f;
  return x > -0.5f && x < 0.1f ? small : large;
}
inline double expm1_of(double x) { return std::expm1(x); }

/// log(1 + x) for 0 <= x <= 1: 2 atanh(x / (2 + x)).
inline float log1p_of(float x) {
  constexpr float c[] = {6.666667226e-01f, 3.999912931e-01f, 2.861069965e-01f, 2.148937991e-01f, 2.408477329e-01f};
  const float s = x / (2.0f + x), z = s * s;
  return s * 2.0f + s * z * polynomial(z, c);
}
inline double log1p_of(double x) { return std::log1p(x); }

/// Large on neither side: exp of what is not positive.
template <class T>
inline T sigmoid_of(T x) {
  const T e = exp_of(-std::abs(x));
  return (x < T{0} ? e : T{1}) / (T{1} + e);
}

inline float tanh_of(float x) {
  constexpr float c[] = {-3.333327034e-01f, 1.333104433e-01f, -5.370223393e-02f, 2.050750655e-02f,
                         -5.550839588e-03f};  // |x| < 0.65
  const float z = x * x, a = std::abs(x), small = x + x * z * polynomial(z, c);
  const float large = std::copysign(1.0f - 2.0f / (exp_of(2.0f * a) + 1.0f), x);
  return a < 0.65f ? small : large;
}
inline double tanh_of(double x) { return std::tanh(x); }

/// The complementary error function of x >= 0: exp(-x^2) times a polynomial in (x - 2) / (x + 2).
inline float erfc_of(float x) {
  constexpr float c[] = {2.553956760e-01f, -4.271858699e-01f, 2.416582583e-01f,  -7.897793412e-02f,
                         3.731727666e-03f, 6.991994960e-03f,  -8.410704988e-04f, -9.614054481e-04f,
                         3.346480985e-05f, 1.369927228e-04f,  2.571513790e-05f};
  const float t = x > 10.5f ? 10.5f : x;                                                   // from there on it is 0
  const float high = std::bit_cast<float>(std::bit_cast<std::uint32_t>(t) & 0xfffff000u);  // its square is exact
  return exp_of_sum(-high * high, (high - t) * (high + t)) * polynomial((t - 2.0f) / (t + 2.0f), c);
}
inline double erfc_of(double x) { return std::erfc(x); }

inline float erf_of(float x) {
  constexpr float c[] = {1.128379166e+00f, -3.761262714e-01f, 1.128360018e-01f, -2.685444456e-02f,
                         5.189535278e-03f, -8.020840714e-04f, 7.889117579e-05f};  // |x| < 1
  const float a = std::abs(x), small = x * polynomial(x * x, c), large = std::copysign(1.0f - erfc_of(a), x);
  return a < 1.0f ? small : large;
}
inline double erf_of(double x) { return std::erf(x); }

}  // namespace lamina::cpu
