#include "lamina/cuda/map/elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdio>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/cuda/chain_step.h"
#include "lamina/tensor/visit.h"

namespace lamina::cuda {
namespace {

bool is_signed(DType dtype) {
  return lamina::detail::visit(dtype, []<class T>(std::type_identity<T>) { return std::signed_integral<T>; });
}
bool is_wide(DType dtype) { return size_of(dtype) == 8; }
/// "s32", "u64": a whole number's type in a register.
std::string whole_type(DType dtype) {
  return (is_signed(dtype) ? "s" : "u") + std::string(is_wide(dtype) ? "64" : "32");
}

std::string vector(std::size_t count, const std::string& type) {
  return count == 1 ? "." + type : ".v" + std::to_string(count) + "." + type;
}

std::string listed(const std::vector<std::string>& registers) {
  if (registers.size() == 1) return registers[0];
  std::string text = "{";
  for (const std::string& one : registers) text += (text.size() == 1 ? "" : ", ") + one;
  return text + "}";
}

std::string at(const std::string& address, std::int64_t bytes) {
  return "[" + address + "+" + std::to_string(bytes) + "]";  // +-4: the language knows no [a-4]
}

}  // namespace

bool Elements::converts(DType stored, DType compute) {
  if (compute == DType::u32) return stored == DType::u8 || stored == DType::u16 || stored == DType::u32;
  return stored != DType::bf16 || compute == DType::f32;
}

Bank Elements::bank() const {
  if (compute_ == DType::u32) return Bank::b32;
  return compute_ == DType::f32 ? Bank::f32 : compute_ == DType::f64 ? Bank::f64 : Bank::b64;
}
std::string Elements::type() const {
  if (compute_ == DType::u32) return "b32";
  return compute_ == DType::f32 ? "f32" : compute_ == DType::f64 ? "f64" : "b64";
}

std::string Elements::number(double value) const {
  char text[32];
  switch (compute_) {
    case DType::f32:
      std::snprintf(text, sizeof text, "0f%08X", std::bit_cast<std::uint32_t>(static_cast<float>(value)));
      return text;
    case DType::f64:
      std::snprintf(text, sizeof text, "0d%016llX",
                    static_cast<unsigned long long>(std::bit_cast<std::uint64_t>(value)));
      return text;
    case DType::u32: return std::to_string(number_as<std::uint32_t>(value));
    case DType::u64: return std::to_string(number_as<std::uint64_t>(value)) + "U";
    default: return std::to_string(number_as<std::int64_t>(value));
  }
}

std::string Elements::in_register(const std::string& text) {
  return text[0] == '%' ? text : t_.let(bank(), "mov." + type(), text);
}

Words Elements::load(DType dtype, const std::string& address, std::int64_t bytes, int count, int together,
                     const std::string& predicate, const char* cached) {
  const int size = static_cast<int>(size_of(dtype)), chunk = std::min(together * size, 16);
  Words words;
  words.bytes = is_wide(dtype) ? 8 : std::min(chunk, 4);
  const Bank bank = is_wide(dtype) ? Bank::b64 : Bank::b32;
  for (int first = 0; first < count * size; first += chunk) {
    std::vector<std::string> registers;
    for (int i = 0; i < chunk; i += words.bytes) registers.push_back(t_.fresh(bank));
    const std::string type = (words.bytes < 4 ? "u" : "b") + std::to_string(8 * words.bytes);
    t_.line_if(predicate, std::string("ld.global") + cached + vector(registers.size(), type), listed(registers),
               at(address, bytes + first));
    words.registers.insert(words.registers.end(), registers.begin(), registers.end());
  }
  return words;
}

std::string Elements::unpacked(DType dtype, const Words& words, int j) {
  const int size = static_cast<int>(size_of(dtype)), first = j * size;
  const std::string& word = words.registers[static_cast<std::size_t>(first / words.bytes)];
  const int bit = first % words.bytes * 8;
  std::string single;  // of floats, where they are not f64
  switch (dtype) {
    case DType::f32: single = t_.let(Bank::f32, "mov.b32", word); break;
    case DType::f16: {
      const std::string low = t_.fresh(Bank::b16), high = t_.fresh(Bank::b16);
      t_.line("mov.b32", "{" + low + ", " + high + "}", word);
      single = t_.let(Bank::f32, "cvt.f32.f16", bit == 0 ? low : high);
      break;
    }
    case DType::bf16:
      single =
          t_.let(Bank::f32, "mov.b32",
                 bit == 0 ? t_.let(Bank::b32, "shl.b32", word, 16) : t_.let(Bank::b32, "and.b32", word, "0xffff0000"));
      break;
    case DType::f64: {
      const std::string number = t_.let(Bank::f64, "mov.b64", word);
      if (compute_ == DType::f64) return number;
      if (compute_ == DType::f32) return t_.let(Bank::f32, "cvt.rn.f32.f64", number);
      const std::string whole = t_.let(Bank::b64, "cvt.rzi." + whole_type(compute_) + ".f64", number);
      return t_.let(Bank::b64, "selp.b64", whole, 0, t_.let(Bank::predicate, "setp.num.f64", number, number));
    }
    case DType::boolean: {
      const std::string byte = t_.let(Bank::b32, "bfe.u32", word, bit, 8);
      const std::string is = t_.let(Bank::predicate, "setp.ne.u32", byte, 0);
      return t_.let(bank(), "selp." + type(), number(1), number(0), is);
    }
    default: {
      if (is_float(dtype)) lamina::detail::fail("no Map reads elements of ", dtype);
      if (size >= 4) return whole_to_number(word, dtype);
      if (compute_ == DType::u32 && size == 2) {  // which ptxas sees through where halves are put together again
        const std::string low = t_.fresh(Bank::b16), high = t_.fresh(Bank::b16);
        t_.line("mov.b32", "{" + low + ", " + high + "}", word);
        return t_.let(Bank::b32, "cvt.u32.u16", bit == 0 ? low : high);
      }
      return whole_to_number(t_.let(Bank::b32, is_signed(dtype) ? "bfe.s32" : "bfe.u32", word, bit, 8 * size), dtype);
    }
  }
  if (compute_ == DType::f32) return single;
  if (compute_ == DType::f64) return t_.let(Bank::f64, "cvt.f64.f32", single);
  const std::string whole = t_.let(Bank::b64, "cvt.rzi." + whole_type(compute_) + ".f32", single);
  return t_.let(Bank::b64, "selp.b64", whole, 0, t_.let(Bank::predicate, "setp.num.f32", single, single));
}

std::string Elements::whole_to_number(const std::string& word, DType dtype) {
  if (compute_ == DType::u32) return word;
  if (is_float(compute_)) return t_.let(bank(), "cvt.rn." + type() + "." + whole_type(dtype), word);
  if (is_wide(dtype)) return word;
  return t_.let(Bank::b64, is_signed(dtype) ? "cvt.s64.s32" : "cvt.u64.u32", word);
}

std::string Elements::element(DType dtype, const std::string& number) {
  const bool floats = is_float(compute_);
  const std::string from = floats ? type() : whole_type(compute_);
  switch (dtype) {
    case DType::f32: {
      const std::string single = compute_ == DType::f32 ? number : t_.let(Bank::f32, "cvt.rn.f32." + from, number);
      return t_.let(Bank::b32, "mov.b32", single);
    }
    case DType::f64: {
      const std::string op = compute_ == DType::f32 ? "cvt.f64.f32" : "cvt.rn.f64." + from;
      return t_.let(Bank::b64, "mov.b64", compute_ == DType::f64 ? number : t_.let(Bank::f64, op, number));
    }
    case DType::f16: return t_.let(Bank::b16, "cvt.rn.f16." + from, number);
    case DType::bf16: {
      if (architecture_ >= 80) return t_.let(Bank::b16, "cvt.rn.bf16.f32", number);
      const std::string bits = t_.let(Bank::b32, "mov.b32", number);
      const std::string odd = t_.let(Bank::b32, "bfe.u32", bits, 16, 1);
      const std::string half = t_.let(Bank::b32, "add.u32", odd, 0x7fff);
      const std::string rounded = t_.let(Bank::b32, "shr.u32", t_.let(Bank::b32, "add.u32", bits, half), 16);
      const std::string is = t_.let(Bank::predicate, "setp.num.f32", number, number);
      return t_.let(Bank::b16, "cvt.u16.u32", t_.let(Bank::b32, "selp.b32", rounded, 0x7fff, is));
    }
    case DType::boolean: {
      const std::string is = floats ? t_.let(Bank::predicate, "setp.neu." + type(), number, this->number(0))
                                    : t_.let(Bank::predicate, "setp.ne.u64", number, 0);
      return t_.let(Bank::b32, "selp.b32", 1, 0, is);
    }
    default:
      if (is_float(dtype)) lamina::detail::fail("no Map stores elements of ", dtype);
  }
  const int bits = static_cast<int>(8 * size_of(dtype));
  std::string whole;
  if (!floats) {
    whole = is_wide(dtype) || compute_ == DType::u32 ? number : t_.let(Bank::b32, "cvt.u32.u64", number);
  } else if (is_wide(dtype) || compute_ == DType::f64) {  // to the type itself, saturating; NaN is not 0 then
    const Bank bank = is_wide(dtype) ? Bank::b64 : Bank::b32;
    whole = t_.let(bank, "cvt.rzi." + whole_type(dtype) + "." + type(), number);
    const std::string is = t_.let(Bank::predicate, "setp.num." + type(), number, number);
    whole = t_.let(bank, is_wide(dtype) ? "selp.b64" : "selp.b32", whole, 0, is);
  } else {
    whole = t_.let(Bank::b32, "cvt.rzi." + whole_type(dtype) + ".f32", number);
  }
  if (floats && bits < 32) {
    const std::int64_t most = is_signed(dtype) ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
    whole = t_.let(Bank::b32, "min." + whole_type(dtype), whole, most);
    if (is_signed(dtype)) whole = t_.let(Bank::b32, "max.s32", whole, -most - 1);
  }
  return bits == 16 ? t_.let(Bank::b16, "cvt.u16.u32", whole) : whole;
}

void Elements::store(DType dtype, const std::string& address, std::int64_t bytes,
                     const std::vector<std::string>& elements, int together, std::int64_t step,
                     const std::string& predicate) {
  const int size = static_cast<int>(size_of(dtype));
  const int count = static_cast<int>(elements.size()), chunk = std::min({together * size, 16, count * size});
  if (chunk <= size) {
    for (int j = 0; j < count; ++j) {
      t_.line_if(predicate, "st.global.b" + std::to_string(8 * size), at(address, bytes + j * step),
                 elements[static_cast<std::size_t>(j)]);
    }
    return;
  }
  const int per_word = size >= 4 ? 1 : std::min(chunk, 4) / size;
  std::vector<std::string> words;
  for (int j = 0; j < count; j += per_word) {
    const auto one = [&](int i) { return elements[static_cast<std::size_t>(j + i)]; };
    if (per_word == 1) {
      words.push_back(one(0));
    } else if (size == 2) {
      words.push_back(t_.let(Bank::b32, "mov.b32", "{" + one(0) + ", " + one(1) + "}"));
    } else {
      std::string word = t_.let(Bank::b32, "bfi.b32", one(1), one(0), 8, 24);
      for (int i = 2; i < per_word; ++i) word = t_.let(Bank::b32, "bfi.b32", one(i), word, 8 * i, 32 - 8 * i);
      words.push_back(word);
    }
  }
  const int word_bytes = per_word * size, in_chunk = chunk / word_bytes;
  const std::string type = "b" + std::to_string(8 * word_bytes);
  for (std::size_t w = 0; w < words.size(); w += static_cast<std::size_t>(in_chunk)) {
    const std::vector<std::string> some(words.begin() + static_cast<std::ptrdiff_t>(w),
                                        words.begin() + static_cast<std::ptrdiff_t>(w) + in_chunk);
    t_.line_if(predicate, "st.global" + vector(some.size(), type),
               at(address, bytes + static_cast<std::int64_t>(w) * word_bytes), listed(some));
  }
}

std::string Elements::start(MapReduction kind) const {
  const double infinity = std::numeric_limits<double>::infinity();
  switch (kind) {
    case MapReduction::spread:
    case MapReduction::sum: return number(0);
    case MapReduction::product: return number(1);
    case MapReduction::max: return number(-infinity);
    default: return number(infinity);
  }
}

Known Elements::nothing(MapReduction kind) {
  Known known;
  for (int i = 0; i < (kind == MapReduction::spread ? 3 : 1); ++i)
    known.push_back(t_.let(bank(), "mov." + type(), start(kind)));
  return known;
}

void Elements::join(MapReduction kind, const std::vector<Known>& known, const std::vector<Known>& others,
                    const std::string& predicate) {
  if (kind == MapReduction::spread) return join_spreads(known, others, predicate);
  for (std::size_t j = 0; j < known.size(); ++j) join(kind, known[j], others[j], predicate);
}

void Elements::join(MapReduction kind, const Known& known, const Known& other, const std::string& predicate) {
  if (kind == MapReduction::spread) return join_spreads({known}, {other}, predicate);
  const std::string &sum = known[0], &x = other[0];
  const bool floats = is_float(compute_);
  const std::string of = floats ? type() : whole_type(compute_);
  const bool most = kind == MapReduction::max;
  switch (kind) {
    case MapReduction::sum: return t_.line_if(predicate, floats ? "add.rn." + of : "add." + of, sum, sum, x);
    case MapReduction::product: return t_.line_if(predicate, floats ? "mul.rn." + of : "mul.lo." + of, sum, sum, x);
    default: break;
  }
  const std::string op = most ? "max." : "min.";
  if (!floats) return t_.line_if(predicate, op + of, sum, sum, x);
  if (architecture_ >= 80 && compute_ == DType::f32) return t_.line_if(predicate, op + "NaN.f32", sum, sum, x);
  const std::string stays = t_.let(Bank::predicate, (most ? "setp.gt." : "setp.lt.") + of, sum, x);
  const std::string is_nan = t_.let(Bank::predicate, "setp.nan." + of, sum, sum);
  t_.line("or.pred", stays, stays, is_nan);
  t_.line_if(predicate, "selp." + of, sum, sum, x, stays);
}

void Elements::add_compensated(const std::string& sum, const std::string& lost, const std::string& x,
                               const std::string& predicate) {
  const std::string y = t_.let(bank(), "sub.rn." + type(), x, lost);
  const std::string next = t_.let(bank(), "add.rn." + type(), sum, y);
  const std::string grown = t_.let(bank(), "sub.rn." + type(), next, sum);
  const std::string rest = t_.let(bank(), "sub.rn." + type(), grown, y);
  const std::string finite =
      t_.let(Bank::predicate, "testp.finite." + type(), rest);  // of an infinite sum nothing is lost
  t_.line_if(predicate, "selp." + type(), lost, rest, number(0), finite);
  t_.line_if(predicate, "mov." + type(), sum, next);
}

std::string Elements::of_neighbour(const std::string& number, std::int64_t distance) {
  const auto moved = [&](const std::string& word, Bank bank) {
    return t_.let(bank, "shfl.sync.bfly.b32", word, distance, 31, -1);
  };
  if (compute_ == DType::f32) return moved(number, Bank::f32);
  const std::string low = t_.fresh(Bank::b32), high = t_.fresh(Bank::b32);
  t_.line("mov.b64", "{" + low + ", " + high + "}", number);
  return t_.let(bank(), "mov.b64", "{" + moved(low, Bank::b32) + ", " + moved(high, Bank::b32) + "}");
}

}  // namespace lamina::cuda
