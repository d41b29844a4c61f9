#include "cuda/map/ptx_emulator.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cuda/map/ptx_program.h"
#include "lamina/base/error.h"

namespace lamina::test {
namespace {

using namespace ptx;
using detail::fail;

class Block {
 public:
  Block(const Program& program, const cuda::MapKernel& kernel, std::span<const Range> parameters, Word x, Word y)
      : program_(program),
        parameters_(parameters),
        x_(x),
        y_(y),
        threads_(static_cast<std::size_t>(kernel.threads)),
        registers_(threads_ * static_cast<std::size_t>(program.registers), 0xDEADBEEFDEADBEEF),
        at_(threads_),
        shared_(program.shared_bytes + 16) {
    if (program.shared_bytes > 48 << 10) fail("more shared memory than a block has: ", program.shared_bytes);
  }

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
    return at_[t] >= program_.instructions.size() || program_.instructions[at_[t]].is_collective;
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

  Word& reg(std::size_t t, int r) {
    return registers_[t * static_cast<std::size_t>(program_.registers) + static_cast<std::size_t>(r)];
  }

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
    if (i.compute) {
      std::array<Word, 4> x{};
      for (std::size_t k = 1; k < i.operands.size(); ++k) x[k - 1] = value(t, i.operands[k]);
      return reg(t, i.operands[0].reg) = i.compute(x.data()), void();
    }
    if (op.starts_with("bra")) return at_[t] = i.target, void();
    if (op.starts_with("ret")) return at_[t] = program_.instructions.size(), void();
    if (op.starts_with("griddep") || op.starts_with("membar")) return;
    if (op == "ld.param.u64") {
      reg(t, i.operands[0].reg) = reinterpret_cast<Word>(parameters_[std::stoul(i.operands[1].text.substr(2))].data);
      return;
    }
    if (op.starts_with("ld.") || op.starts_with("st.") || op.starts_with("atom.")) return memory(t, i);
    if (!op.starts_with("mov")) fail("the emulator does not know ", op);
    const int half = op == "mov.b64" ? 32 : 16;
    if (i.operands[0].kind == Operand::Kind::vector) {
      const Word w = value(t, i.operands[1]);
      reg(t, i.operands[0].parts[0].reg) = cut(w, half), reg(t, i.operands[0].parts[1].reg) = cut(w >> half, half);
    } else {
      const auto& parts = i.operands[1].parts;
      reg(t, i.operands[0].reg) = cut(value(t, parts[0]), half) | cut(value(t, parts[1]), half) << half;
    }
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
    if (o.reg < 0) fail("the emulator calls no functions, whose parameters are at ", o.text);
    fail("outside of every array: ", o.text);
  }

  void memory(std::size_t t, const Instruction& i) {
    const bool writes = i.words[0] != "ld", shared = i.words[1] == "shared";
    const auto size = static_cast<std::size_t>(bits_of(i) / 8);
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
        reg(t, o.reg) =
            i.words.back()[0] == 's' ? cut(static_cast<Word>(as_signed(w, static_cast<int>(8 * size))), 32) : w;
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
    Block(program, kernel, parameters, static_cast<Word>(at % kernel.blocks), static_cast<Word>(at / kernel.blocks))
        .run();
  }
}

}  // namespace lamina::test
