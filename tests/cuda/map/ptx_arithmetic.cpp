#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "cuda/map/ptx_program.h"
#include "lamina/base/error.h"
#include "lamina/cpu/array/blocks.h"
#include "lamina/tensor/dtype.h"

namespace lamina::test::ptx {
namespace {

using detail::fail;

float f32(Word w) { return std::bit_cast<float>(static_cast<std::uint32_t>(w)); }
double f64(Word w) { return std::bit_cast<double>(w); }
Word bits(float x) { return std::bit_cast<std::uint32_t>(x); }
Word bits(double x) { return std::bit_cast<Word>(x); }

/// A number type of an instruction, such as f32 or s64.
struct Type {
  char kind = 'b';  // b, u, s, f, or p of a predicate; h of bf16
  int size = 32;
};
Type type_of(std::string_view text) {
  if (text == "pred") return {'p', 1};
  if (text == "bf16") return {'h', 16};
  return {text[0], std::atoi(text.data() + 1)};
}
bool is_type(std::string_view text) {
  return text == "pred" || text == "bf16" ||
         (text.size() >= 2 && std::string_view("busf").find(text[0]) != std::string_view::npos &&
          std::isdigit(static_cast<unsigned char>(text[1])) != 0);
}

}  // namespace

Word cut(Word w, int size) { return size >= 64 ? w : w & ((Word{1} << size) - 1); }
std::int64_t as_signed(Word w, int size) { return static_cast<std::int64_t>(w << (64 - size)) >> (64 - size); }

int bits_of(const Instruction& instruction) { return type_of(instruction.words.back()).size; }

namespace {

template <class F>
auto rounded(const Instruction& i, F&& f) {
  const int mode = i.has("rz") ? FE_TOWARDZERO : i.has("rm") ? FE_DOWNWARD : FE_TONEAREST;
  if (mode == FE_TONEAREST) return f();
  std::fesetround(mode);
  const auto result = f();  // of volatile operands, so not before
  std::fesetround(FE_TONEAREST);
  return result;
}

/// A whole number of a float, as cvt's .rni, .rzi, .rmi and .rpi say.
double to_integer(const Instruction& i, double value) {
  if (i.has("rzi")) return std::trunc(value);
  if (i.has("rmi")) return std::floor(value);
  return i.has("rpi") ? std::ceil(value) : std::nearbyint(value);
}

template <class T>
bool compared(std::string_view how, T a, T b) {
  const bool unordered = a != a || b != b;
  if (how == "nan") return unordered;
  if (how == "num") return !unordered;
  if (how == "ne" || how == "neu") return how == "neu" ? !(a == b) : !unordered && a != b;
  const bool or_unordered = how.size() == 3 && how[2] == 'u';
  if (unordered) return or_unordered;
  how = how.substr(0, 2);
  return how == "lt" ? a < b : how == "le" ? a <= b : how == "gt" ? a > b : how == "ge" ? a >= b : a == b;
}

template <class T>
T float_result(const Instruction& i, const T* x) {
  const std::string_view name = i.words[0];
  const volatile T a = x[0], b = x[1], c = x[2];
  const auto with = [&](auto f) { return rounded(i, f); };
  if (name == "add") return with([&] { return static_cast<T>(a + b); });
  if (name == "sub") return with([&] { return static_cast<T>(a - b); });
  if (name == "mul") return with([&] { return static_cast<T>(a * b); });
  if (name == "div") return with([&] { return static_cast<T>(a / b); });
  if (name == "fma") return with([&] { return std::fma(static_cast<T>(a), static_cast<T>(b), static_cast<T>(c)); });
  if (name == "sqrt") return std::sqrt(x[0]);
  if (name == "rcp") return T{1} / x[0];
  if (name == "rsqrt") return T{1} / std::sqrt(x[0]);
  if (name == "ex2") return std::exp2(x[0]);
  if (name == "lg2") return std::log2(x[0]);
  if (name == "abs") return std::abs(x[0]);
  if (name == "neg") return -x[0];
  if (name == "copysign") return std::copysign(x[1], x[0]);
  if (name == "max" || name == "min") {
    if (i.has("NaN") && (x[0] != x[0] || x[1] != x[1])) return std::numeric_limits<T>::quiet_NaN();
    return name == "max" ? std::fmax(x[0], x[1]) : std::fmin(x[0], x[1]);
  }
  fail("the emulator does not know ", i.op);
}

Word whole_result(const Instruction& i, Type type, const Word* x) {
  const std::string_view name = i.words[0];
  const bool is_signed = type.kind == 's', wide = i.has("wide");
  const auto s = [&](int k) { return as_signed(x[k], type.size); };
  const auto u = [&](int k) { return cut(x[k], type.size); };
  const auto product = [&] { return is_signed ? static_cast<Word>(s(0)) * static_cast<Word>(s(1)) : u(0) * u(1); };
  if (name == "add") return u(0) + u(1);
  if (name == "sub") return u(0) - u(1);
  if (name == "mul" && i.has("hi") && type.size == 32) return u(0) * u(1) >> 32;
  if (name == "mul") return product();
  if (name == "mad") return product() + (wide ? x[2] : u(2));
  if (name == "div") return u(1) == 0 ? ~Word{0} : is_signed ? static_cast<Word>(s(0) / s(1)) : u(0) / u(1);
  if (name == "rem") return u(1) == 0 ? u(0) : is_signed ? static_cast<Word>(s(0) % s(1)) : u(0) % u(1);
  if (name == "min") return is_signed ? static_cast<Word>(std::min(s(0), s(1))) : std::min(u(0), u(1));
  if (name == "max") return is_signed ? static_cast<Word>(std::max(s(0), s(1))) : std::max(u(0), u(1));
  if (name == "abs") return static_cast<Word>(std::abs(s(0)));
  if (name == "neg") return 0 - x[0];
  if (name == "and") return x[0] & x[1];
  if (name == "or") return x[0] | x[1];
  if (name == "xor") return x[0] ^ x[1];
  if (name == "not") return ~x[0];
  if (name == "shl") return x[1] >= 64 ? 0 : x[0] << x[1];
  if (name == "shr") {
    const auto by = static_cast<int>(std::min<Word>(x[1], static_cast<Word>(type.size - 1)));
    return is_signed ? static_cast<Word>(s(0) >> by) : x[1] >= static_cast<Word>(type.size) ? 0 : u(0) >> by;
  }
  if (name == "clz") return static_cast<Word>(std::countl_zero(u(0))) - static_cast<Word>(64 - type.size);
  if (name == "bfe") {
    const Word field = cut(u(0) >> x[1], static_cast<int>(x[2]));
    return is_signed ? static_cast<Word>(as_signed(field, static_cast<int>(x[2]))) : field;
  }
  if (name == "bfi") {
    const Word mask = cut(~Word{0}, static_cast<int>(x[3])) << x[2];
    return (x[1] & ~mask) | (x[0] << x[2] & mask);
  }
  fail("the emulator does not know ", i.op);
}

/// Rounded once.
Word half_of(double value) {
  half result;
  cpu::store(DType::f16, &value, &result, 1);
  return result.bits;
}

/// A number of one type as one of another.
Word converted(const Instruction& i, Type to, Type from, Word x) {
  if (from.kind == 'f' || from.kind == 'h') {
    double value = from.kind == 'h'  ? static_cast<double>(f32(x << 16))
                   : from.size == 16 ? static_cast<double>(to_float(half{static_cast<std::uint16_t>(x)}))
                   : from.size == 32 ? static_cast<double>(f32(x))
                                     : f64(x);
    if (to.kind == 'h') return to_bfloat16(static_cast<float>(value)).bits;
    if (to.kind == 'f') {
      if (i.words[1].ends_with("i")) value = to_integer(i, value);
      if (i.has("sat")) value = value > 0 ? std::min(value, 1.0) : 0.0;
      if (to.size == 16) return half_of(value);
      return to.size == 32 ? bits(static_cast<float>(value)) : bits(value);
    }
    if (value != value) return to.size == 64 || from.size == 64 ? Word{1} << (to.size - 1) : 0;
    value = to_integer(i, value);
    const double limit = std::ldexp(1.0, to.kind == 's' ? to.size - 1 : to.size);
    if (to.kind == 's') {
      if (value >= limit) return cut(~Word{0}, to.size - 1);
      return value < -limit ? Word{1} << (to.size - 1) : static_cast<Word>(static_cast<std::int64_t>(value));
    }
    return value >= limit ? cut(~Word{0}, to.size) : value <= 0 ? 0 : static_cast<Word>(value);
  }
  const bool negative = from.kind == 's';
  const std::int64_t s = as_signed(x, from.size);
  const Word u = cut(x, from.size);
  if (to.kind != 'f') return negative ? static_cast<Word>(s) : u;
  if (to.size == 64) return bits(negative ? static_cast<double>(s) : static_cast<double>(u));
  if (to.size == 32) return bits(negative ? static_cast<float>(s) : static_cast<float>(u));
  return half_of(negative ? static_cast<double>(s) : static_cast<double>(u));
}

}  // namespace

std::function<Word(const Word*)> arithmetic(const Instruction& i) {
  std::vector<Type> types;
  for (const std::string_view word : i.words) {
    if (is_type(word)) types.push_back(type_of(word));
  }
  const std::string_view name = i.words[0];
  if (types.empty()) return {};
  const Type type = types.back();
  if (name == "mov" || name == "cvta")
    return [type](const Word* x) { return cut(x[0], type.kind == 'p' ? 1 : type.size); };
  if (name == "cvt")
    return [&i, to = types[0], type](const Word* x) {
      return cut(converted(i, to, type, x[0]), to.kind == 'h' ? 16 : to.size);
    };
  if (name == "selp") return [](const Word* x) { return x[2] != 0 ? x[0] : x[1]; };
  if (name == "testp")
    return [type](const Word* x) -> Word {
      return std::isfinite(type.size == 32 ? static_cast<double>(f32(x[0])) : f64(x[0]));
    };
  if (name == "setp") {
    return [&i, type](const Word* x) -> Word {
      const std::string_view how = i.words[1];
      if (i.has("and") && x[2] == 0) return 0;
      if (type.kind == 'f')
        return type.size == 32 ? compared(how, f32(x[0]), f32(x[1])) : compared(how, f64(x[0]), f64(x[1]));
      if (type.kind == 's') return compared(how, as_signed(x[0], type.size), as_signed(x[1], type.size));
      return compared(how, cut(x[0], type.size), cut(x[1], type.size));
    };
  }
  if (type.kind == 'p') {
    return [&i](const Word* x) -> Word { return whole_result(i, {'u', 1}, x) & 1; };
  }
  if (type.kind == 'f') {
    return [&i, type](const Word* x) {
      if (type.size == 64) return bits(float_result(i, std::array<double, 3>{f64(x[0]), f64(x[1]), f64(x[2])}.data()));
      return bits(float_result(i, std::array<float, 3>{f32(x[0]), f32(x[1]), f32(x[2])}.data()));
    };
  }
  const int size = i.has("wide") ? 64 : type.size;
  return [&i, type, size](const Word* x) { return cut(whole_result(i, type, x), size); };
}

}  // namespace lamina::test::ptx
