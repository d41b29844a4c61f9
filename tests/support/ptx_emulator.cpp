#include "support/ptx_emulator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <sstream>
#include <string_view>

#include "lamina/base/error.h"
#include "lamina/tensor/dtype.h"

namespace lamina::test {
namespace {

using Word = std::uint64_t;
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
         (text.size() >= 2 && std::string_view("busf").find(text[0]) != std::string_view::npos && std::isdigit(static_cast<unsigned char>(text[1])) != 0);
}

Word cut(Word w, int size) { return size >= 64 ? w : w & ((Word{1} << size) - 1); }
std::int64_t as_signed(Word w, int size) {
  return static_cast<std::int64_t>(w << (64 - size)) >> (64 - size);
}

/// An instruction's operand.
struct Operand {
  enum class Kind { reg, number, vector, memory, special, other } kind = Kind::other;
  int reg = -1;
  Word number = 0;             // or the bytes behind the register of an address
  std::vector<Operand> parts;  // of {a, b}
  std::string text;
};

struct Instruction {
  std::string op;
  std::vector<std::string_view> words;  // of the op, between its dots
  std::vector<Operand> operands;
  int guard = -1;
  bool unless = false;
  std::size_t target = 0;  // of a branch
  std::function<Word(const Word*)> compute;

  bool has(std::string_view word) const { return std::find(words.begin(), words.end(), word) != words.end(); }
};

// ---- arithmetic --------------------------------------------------------------------------------------------------------

template <class F>
auto rounded(const Instruction& i, F&& f) {
  const int mode = i.has("rz") || i.has("rzi") ? FE_TOWARDZERO : i.has("rm") || i.has("rmi") ? FE_DOWNWARD : i.has("rpi") ? FE_UPWARD : FE_TONEAREST;
  std::fesetround(mode);
  const volatile auto result = f();
  std::fesetround(FE_TONEAREST);
  return result;
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
  if (name == "mul" && i.has("hi")) return static_cast<Word>(static_cast<unsigned __int128>(u(0)) * u(1) >> type.size);
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

/// A number of one type as one of another.
Word converted(const Instruction& i, Type to, Type from, Word x) {
  if (from.kind == 'f' || from.kind == 'h') {
    double value = from.kind == 'h' ? static_cast<double>(f32(x << 16)) : from.size == 16 ? static_cast<double>(to_float(half{static_cast<std::uint16_t>(x)}))
                   : from.size == 32 ? static_cast<double>(f32(x)) : f64(x);
    if (to.kind == 'h') return to_bfloat16(static_cast<float>(value)).bits;
    if (to.kind == 'f') {
      if (i.words[1].ends_with("i")) value = rounded(i, [&] { return std::rint(value); });
      if (i.has("sat")) value = value > 0 ? std::min(value, 1.0) : 0.0;
      if (to.size == 16) return to_half(static_cast<float>(value)).bits;
      return to.size == 32 ? bits(static_cast<float>(value)) : bits(value);
    }
    if (value != value) return to.size == 64 || from.size == 64 ? Word{1} << (to.size - 1) : 0;
    value = rounded(i, [&] { return std::rint(value); });
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
  const float single = negative ? static_cast<float>(s) : static_cast<float>(u);
  return to.size == 32 ? bits(single) : to_half(single).bits;
}

/// What an instruction puts into its first operand, of the others; null: it is none of these.
std::function<Word(const Word*)> arithmetic(const Instruction& i) {
  std::vector<Type> types;
  for (const std::string_view word : i.words) {
    if (is_type(word)) types.push_back(type_of(word));
  }
  const std::string_view name = i.words[0];
  if (types.empty()) return {};
  const Type type = types.back();
  if (name == "mov" || name == "cvta") return [type](const Word* x) { return cut(x[0], type.kind == 'p' ? 1 : type.size); };
  if (name == "cvt") return [&i, to = types[0], type](const Word* x) { return cut(converted(i, to, type, x[0]), to.kind == 'h' ? 16 : to.size); };
  if (name == "selp") return [](const Word* x) { return x[2] != 0 ? x[0] : x[1]; };
  if (name == "testp") return [type](const Word* x) -> Word { return std::isfinite(type.size == 32 ? static_cast<double>(f32(x[0])) : f64(x[0])); };
  if (name == "setp") {
    return [&i, type](const Word* x) -> Word {
      const std::string_view how = i.words[1];
      if (i.has("and") && x[2] == 0) return 0;
      if (type.kind == 'f') return type.size == 32 ? compared(how, f32(x[0]), f32(x[1])) : compared(how, f64(x[0]), f64(x[1]));
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

// ---- text --------------------------------------------------------------------------------------------------------------

class Program {
 public:
  explicit Program(const std::string& text) {
    const std::size_t open = text.find("\n{"), shared = text.find("memory[");
    if (shared != std::string::npos) shared_bytes = std::stoul(text.substr(shared + 7));
    std::istringstream lines(text.substr(open + 2, text.rfind('}') - open - 2));
    scopes_.emplace_back();
    std::vector<std::pair<std::size_t, std::string>> branches;
    std::string line;
    while (std::getline(lines, line)) read(line, branches);
    for (const auto& [at, label] : branches) instructions[at].target = labels_.at(label);
    for (Instruction& i : instructions) {
      std::size_t from = 0;
      while (true) {
        const std::size_t dot = i.op.find('.', from);
        i.words.push_back(std::string_view(i.op).substr(from, dot - from));
        if (dot == std::string::npos) break;
        from = dot + 1;
      }
      i.compute = arithmetic(i);
    }
  }
  std::vector<Instruction> instructions;
  int registers = 0;
  std::size_t shared_bytes = 0;

 private:
  void read(std::string line, std::vector<std::pair<std::size_t, std::string>>& branches) {
    line.erase(0, line.find_first_not_of(" \t"));
    const std::size_t end = line.find_last_not_of(" \t\r");
    line.resize(end == std::string::npos ? 0 : end + 1);
    if (line.empty() || line.starts_with("//")) return;
    if (line == "{") return scopes_.emplace_back(), ++serial_, void();
    if (line == "}") return scopes_.pop_back();
    if (line.ends_with(":")) {
      labels_[label(line.substr(0, line.size() - 1))] = instructions.size();
      return;
    }
    if (line.starts_with(".reg")) {
      const std::size_t percent = line.find('%');
      scopes_.back()[line.substr(percent, line.find('<') - percent)] = ++serial_;
      return;
    }
    if (line[0] == '.') return;
    if (line.back() == ';') line.pop_back();
    Instruction i;
    if (line[0] == '@') {
      i.unless = line[1] == '!';
      const std::size_t space = line.find_first_of(" \t");
      i.guard = reg(line.substr(i.unless ? 2 : 1, space - (i.unless ? 2 : 1)));
      line.erase(0, line.find_first_not_of(" \t", space));
    }
    const std::size_t space = std::min(line.find_first_of(" \t"), line.size());
    i.op = line.substr(0, space);
    std::string rest = line.substr(space);
    if (i.op.starts_with("bra")) {
      rest.erase(0, rest.find_first_not_of(" \t"));
      branches.emplace_back(instructions.size(), label(rest));
    } else {
      i.operands = operands(rest);
    }
    instructions.push_back(std::move(i));
  }

  /// Labels of a spliced function are its own.
  std::string label(const std::string& text) const {
    return text.starts_with("$L") ? text + "@" + std::to_string(scopes_.back().empty() ? 0 : scopes_.back().begin()->second) : text;
  }

  int reg(const std::string& name) {
    const std::string prefix = name.substr(0, name.find_first_of("0123456789"));
    for (std::size_t s = scopes_.size(); s-- > 0;) {
      if (const auto found = scopes_[s].find(prefix); found != scopes_[s].end()) {
        const auto [entry, fresh] = numbers_.try_emplace(name + "@" + std::to_string(found->second), registers);
        registers += fresh ? 1 : 0;
        return entry->second;
      }
    }
    const auto [entry, fresh] = numbers_.try_emplace(name, registers);  // the kernel's own
    registers += fresh ? 1 : 0;
    return entry->second;
  }

  std::vector<Operand> operands(const std::string& text) {
    std::vector<Operand> result;
    for (std::size_t at = 0; at < text.size();) {
      at = text.find_first_not_of(" \t,", at);
      if (at == std::string::npos) break;
      const char close = text[at] == '{' ? '}' : text[at] == '[' ? ']' : ',';
      std::size_t end = std::min(text.find(close, at + 1), text.size());
      if (close != ',') ++end;
      result.push_back(operand(text.substr(at, end - at)));
      at = end;
    }
    return result;
  }

  Operand operand(std::string text) {
    text.resize(text.find_last_not_of(" \t") + 1);
    Operand o;
    o.text = text;
    if (text[0] == '{') {
      o.kind = Operand::Kind::vector;
      o.parts = operands(text.substr(1, text.size() - 2));
    } else if (text[0] == '[') {
      o.kind = Operand::Kind::memory;
      const std::size_t sign = text.find_first_of("+-", 1), end = std::min(sign, text.size() - 1);
      if (text[1] == '%') o.reg = reg(text.substr(1, end - 1));
      if (sign != std::string::npos) o.number = static_cast<Word>(std::stoll(text.substr(sign)));
    } else if (text.starts_with("%tid") || text.starts_with("%ctaid")) {
      o.kind = Operand::Kind::special;
    } else if (text[0] == '%') {
      o.kind = Operand::Kind::reg, o.reg = reg(text);
    } else if (text.starts_with("0f") || text.starts_with("0d")) {
      o.kind = Operand::Kind::number, o.number = std::stoull(text.substr(2), nullptr, 16);
    } else if (text == "memory") {
      o.kind = Operand::Kind::number;
    } else if (std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '-') {
      o.kind = Operand::Kind::number;
      o.number = text[0] == '-' ? static_cast<Word>(std::stoll(text, nullptr, 0)) : std::stoull(text, nullptr, 0);
    }
    return o;
  }

  std::vector<std::map<std::string, int>> scopes_;
  std::map<std::string, int> numbers_;
  std::map<std::string, std::size_t> labels_;
  int serial_ = 0;
};

// ---- a block -----------------------------------------------------------------------------------------------------------

class Block {
 public:
  Block(const Program& program, const cuda::MapKernel& kernel, std::span<const Range> parameters, Word x, Word y)
      : program_(program), parameters_(parameters), x_(x), y_(y), threads_(static_cast<std::size_t>(kernel.threads)),
        registers_(threads_ * static_cast<std::size_t>(program.registers), 0xDEADBEEFDEADBEEF), at_(threads_), shared_(program.shared_bytes + 16) {}

  void run() {
    while (true) {
      bool all_done = true;
      for (std::size_t t = 0; t < threads_; ++t) {
        advance(t);
        all_done = all_done && at_[t] >= program_.instructions.size();
      }
      if (all_done) return;
      if (!shuffle()) pass_barrier();
    }
  }

 private:
  bool waits(std::size_t t) const {
    if (at_[t] >= program_.instructions.size()) return true;
    const std::string& op = program_.instructions[at_[t]].op;
    return op.starts_with("bar.") || op.starts_with("shfl.");
  }

  /// One thread, up to where it needs others.
  void advance(std::size_t t) {
    while (!waits(t)) {
      const Instruction& i = program_.instructions[at_[t]++];
      if (i.guard >= 0 && (reg(t, i.guard) != 0) == i.unless) continue;
      step(t, i);
    }
  }

  /// Warps of which all threads wait at one shuffle do it; false if there are none.
  bool shuffle() {
    bool any = false;
    for (std::size_t first = 0; first < threads_; first += 32) {
      if (at_[first] >= program_.instructions.size()) continue;
      const Instruction& i = program_.instructions[at_[first]];
      if (!i.op.starts_with("shfl.")) continue;
      std::array<Word, 32> values;
      for (std::size_t lane = 0; lane < 32; ++lane) {
        if (at_[first + lane] != at_[first]) fail("a part of a warp misses a shuffle");
        values[lane] = value(first + lane, i.operands[1]);
      }
      for (std::size_t lane = 0; lane < 32; ++lane) {
        reg(first + lane, i.operands[0].reg) = values[lane ^ i.operands[2].number];
        ++at_[first + lane];
      }
      any = true;
    }
    return any;
  }

  void pass_barrier() {
    const std::size_t barrier = *std::min_element(at_.begin(), at_.end());
    for (std::size_t& at : at_) {
      if (at >= program_.instructions.size()) continue;
      if (at != barrier) fail("threads wait at two barriers");
      ++at;
    }
  }

  Word& reg(std::size_t t, int r) { return registers_[t * static_cast<std::size_t>(program_.registers) + static_cast<std::size_t>(r)]; }

  Word value(std::size_t t, const Operand& o) {
    switch (o.kind) {
      case Operand::Kind::reg: return reg(t, o.reg);
      case Operand::Kind::number: return o.number;
      case Operand::Kind::special: return o.text == "%tid.x" ? t : o.text == "%ctaid.x" ? x_ : y_;
      default: fail("the emulator does not know the operand ", o.text);
    }
  }

  void step(std::size_t t, const Instruction& i) {
    const std::string& op = i.op;
    if (op.starts_with("bra")) return at_[t] = i.target, void();
    if (op.starts_with("ret")) return at_[t] = program_.instructions.size(), void();
    if (op.starts_with("griddep") || op.starts_with("membar")) return;
    if (op == "ld.param.u64") {
      reg(t, i.operands[0].reg) = reinterpret_cast<Word>(parameters_[std::stoul(i.operands[1].text.substr(2))].data);
      return;
    }
    if (op.starts_with("ld.") || op.starts_with("st.") || op.starts_with("atom.")) return memory(t, i);
    if (op.starts_with("mov") && (i.operands[0].kind == Operand::Kind::vector || i.operands[1].kind == Operand::Kind::vector)) {
      const int half = op == "mov.b64" ? 32 : 16;
      if (i.operands[0].kind == Operand::Kind::vector) {
        const Word w = value(t, i.operands[1]);
        reg(t, i.operands[0].parts[0].reg) = cut(w, half), reg(t, i.operands[0].parts[1].reg) = cut(w >> half, half);
      } else {
        const auto& parts = i.operands[1].parts;
        reg(t, i.operands[0].reg) = cut(value(t, parts[0]), half) | cut(value(t, parts[1]), half) << half;
      }
      return;
    }
    if (!i.compute) fail("the emulator does not know ", op);
    std::array<Word, 4> x{};
    for (std::size_t k = 1; k < i.operands.size(); ++k) x[k - 1] = value(t, i.operands[k]);
    reg(t, i.operands[0].reg) = i.compute(x.data());
  }

  unsigned char* memory_at(std::size_t t, const Operand& o, std::size_t bytes, bool shared, bool writes) {
    const Word address = (o.reg >= 0 ? reg(t, o.reg) : 0) + o.number;
    if (address % bytes != 0) fail("an access of ", bytes, " bytes at ", o.text, " is not on its alignment");
    if (shared) {
      if (address + bytes > shared_.size()) fail("outside shared memory: ", o.text);
      return shared_.data() + address;
    }
    for (const Range& range : parameters_) {
      const Word from = reinterpret_cast<Word>(range.data);
      if (address < from || address + bytes > from + range.bytes) continue;
      if (writes && !range.may_write) fail("writes an operand");
      return reinterpret_cast<unsigned char*>(address);
    }
    fail("outside of every array: ", o.text);
  }

  void memory(std::size_t t, const Instruction& i) {
    const bool writes = i.words[0] != "ld", shared = i.words[1] == "shared";
    const auto size = static_cast<std::size_t>(type_of(i.words.back()).size / 8);
    if (i.words[0] == "atom") {
      unsigned char* at = memory_at(t, i.operands[1], 4, shared, true);
      std::uint32_t old = 0;
      std::memcpy(&old, at, 4);
      const std::uint32_t next = old >= value(t, i.operands[2]) ? 0 : old + 1;
      std::memcpy(at, &next, 4);
      reg(t, i.operands[0].reg) = old;
      return;
    }
    const Operand& address = i.operands[writes ? 0 : 1];
    const Operand& registers = i.operands[writes ? 1 : 0];
    const std::vector<Operand> one = {registers};
    const std::vector<Operand>& all = registers.kind == Operand::Kind::vector ? registers.parts : one;
    unsigned char* at = memory_at(t, address, size * all.size(), shared, writes);
    for (const Operand& o : all) {
      if (writes) {
        const Word w = value(t, o);
        std::memcpy(at, &w, size);
      } else {
        Word w = 0;
        std::memcpy(&w, at, size);
        reg(t, o.reg) = i.words.back()[0] == 's' ? cut(static_cast<Word>(as_signed(w, static_cast<int>(8 * size))), 32) : w;
      }
      at += size;
    }
  }

  const Program& program_;
  std::span<const Range> parameters_;
  Word x_, y_;
  std::size_t threads_;
  std::vector<Word> registers_;
  std::vector<std::size_t> at_;
  std::vector<unsigned char> shared_;
};

}  // namespace

void emulate(const cuda::MapKernel& kernel, std::span<const Range> parameters, bool backwards) {
  const Program program(kernel.text);
  const std::int64_t blocks = kernel.blocks * kernel.parts;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t at = backwards ? blocks - 1 - b : b;
    Block(program, kernel, parameters, static_cast<Word>(at % kernel.blocks), static_cast<Word>(at / kernel.blocks)).run();
  }
}

}  // namespace lamina::test
