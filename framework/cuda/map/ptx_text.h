#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

/// Text of the PTX language, a kernel at a time.
namespace lamina::cuda {

/// Kinds of registers: predicates, words of 16, 32 and 64 bits, floats of 32 and 64.
enum class Bank : std::uint8_t { predicate, b16, b32, f32, b64, f64 };

/// An operand of an instruction: a register's name, a number, or anything else that is written as it is.
class PtxOperand {
 public:
  PtxOperand(std::string_view text) : text_(text) {}
  PtxOperand(const std::string& text) : text_(text) {}
  PtxOperand(const char* text) : text_(text) {}
  PtxOperand(std::int64_t number) : text_(std::to_string(number)) {}
  PtxOperand(int number) : text_(std::to_string(number)) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// The body of a kernel. Registers are never used again, so nothing has to be kept apart.
class PtxText {
 public:
  /// A register that nothing has been put into.
  std::string fresh(Bank bank) {
    const auto i = static_cast<std::size_t>(bank);
    return std::string(prefixes[i]) + std::to_string(count_[i]++);
  }
  std::string fresh_label() { return "$T" + std::to_string(labels_++); }

  /// op operands...;
  template <class... Operands>
  void line(std::string_view op, const Operands&... operands) {
    line_if("", op, operands...);
  }
  /// The same of threads of which the predicate is true, or false if a "!" stands before it; "": of all.
  template <class... Operands>
  void line_if(std::string_view predicate, std::string_view op, const Operands&... operands) {
    if (!predicate.empty()) body_.append("@").append(predicate).append(" ");
    body_.append(op);
    [[maybe_unused]] const char* between = " ";
    ((body_.append(between).append(PtxOperand(operands).text()), between = ", "), ...);
    body_.append(";\n");
  }
  /// The same whose first operand is a fresh register, which is returned.
  template <class... Operands>
  std::string let(Bank bank, std::string_view op, const Operands&... operands) {
    std::string result = fresh(bank);
    line(op, result, operands...);
    return result;
  }
  void place(std::string_view label) { body_.append(label).append(":\n"); }
  /// Lines that were written elsewhere.
  void splice(std::string_view lines) { body_.append(lines); }

  std::string special(std::string_view name) { return let(Bank::b32, "mov.u32", "%" + std::string(name)); }
  /// The whole part of n / divisor; n < 2^31.
  std::string quotient(const std::string& n, std::int64_t divisor);
  /// n - quotient * divisor
  std::string rest(const std::string& n, const std::string& quotient, std::int64_t divisor);
  /// base + index * bytes; index is of 31 bits, base of 64. The base itself where bytes is 0.
  std::string advanced(const std::string& base, const std::string& index, std::int64_t bytes);

  /// The kernel: its parameters are pointers, p0, p1, ...; its threads share `shared` bytes, "memory".
  std::string entry(std::string_view name, int parameters, int threads, std::int64_t shared) const;

 private:
  static constexpr const char* prefixes[] = {"%q", "%h", "%u", "%x", "%a", "%d"};
  std::string body_;
  int count_[6] = {};
  int labels_ = 0;
};

/// The first lines of a module for a compute capability such as 90: the lowest version that serves it, since older
/// drivers refuse newer ones.
std::string ptx_header(int architecture);

}  // namespace lamina::cuda
