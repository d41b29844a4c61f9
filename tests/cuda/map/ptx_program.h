#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// A kernel's text as instructions, with what each computes.
namespace lamina::test::ptx {

using Word = std::uint64_t;

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
  bool is_collective = false;  // threads wait for others at it

  bool has(std::string_view word) const { return std::find(words.begin(), words.end(), word) != words.end(); }
};

/// What an instruction puts into its first operand, of the others; null: it moves nothing between registers.
std::function<Word(const Word*)> arithmetic(const Instruction& instruction);

/// The lower bits of a word, and the number that they are.
Word cut(Word w, int bits);
std::int64_t as_signed(Word w, int bits);
/// Bits of the elements that an instruction is about: its last type's.
int bits_of(const Instruction& instruction);

class Program {
 public:
  /// Of an entry as generate writes it.
  explicit Program(const std::string& text);

  std::vector<Instruction> instructions;
  int registers = 0;
  std::size_t shared_bytes = 0;

 private:
  using Branches = std::vector<std::pair<std::size_t, std::string>>;
  void read(std::string line, Branches& branches);
  std::string label(const std::string& text) const;
  int reg(const std::string& name);
  std::vector<Operand> operands(const std::string& text);
  Operand operand(std::string text);

  std::vector<std::map<std::string, int>> scopes_;
  std::map<std::string, int> numbers_;
  std::map<std::string, std::size_t> labels_;
  int serial_ = 0;
};

}  // namespace lamina::test::ptx
