#include "lamina/cuda/map/ptx_text.h"

#include <algorithm>
#include <bit>

#include "lamina/cuda/divider.h"

namespace lamina::cuda {

std::string PtxText::quotient(const std::string& n, std::int64_t divisor) {
  if (divisor == 1) return n;
  const Divider by(divisor);
  if (std::has_single_bit(static_cast<std::uint64_t>(divisor)))
    return let(Bank::b32, "shr.u32", n, std::int64_t{by.shift});
  const std::string high = let(Bank::b32, "mul.hi.u32", n, std::int64_t{by.magic});
  return let(Bank::b32, "shr.u32", let(Bank::b32, "add.u32", high, n), std::int64_t{by.shift});
}

std::string PtxText::rest(const std::string& n, const std::string& quotient, std::int64_t divisor) {
  if (divisor == 1) return let(Bank::b32, "mov.u32", 0);
  return let(Bank::b32, "sub.u32", n, let(Bank::b32, "mul.lo.u32", quotient, divisor));
}

std::string PtxText::advanced(const std::string& base, const std::string& index, std::int64_t bytes) {
  if (bytes == 0) return base;
  if (bytes == static_cast<std::int32_t>(bytes)) return let(Bank::b64, "mad.wide.s32", index, bytes, base);
  const std::string wide = let(Bank::b64, "cvt.s64.s32", index);
  return let(Bank::b64, "mad.lo.s64", wide, bytes, base);
}

std::string PtxText::entry(std::string_view name, int parameters, int threads, std::int64_t shared) const {
  // Of a multiprocessor, whose registers are 128 for each then: with eight more, drivers leave room for half as many.
  constexpr int threads_at_once = 512;
  constexpr const char* types[] = {".pred", ".b16", ".b32", ".f32", ".b64", ".f64"};
  std::string text = ".visible .entry " + std::string(name) + "(";
  for (int i = 0; i < parameters; ++i) text += (i == 0 ? ".param .u64 p" : ", .param .u64 p") + std::to_string(i);
  text += ")\n.maxntid " + std::to_string(threads) + ", 1, 1\n";
  text += ".minnctapersm " + std::to_string(std::max(threads_at_once / threads, 1)) + "\n{\n";
  for (std::size_t i = 0; i < 6; ++i) {
    text += std::string(".reg ") + types[i] + " " + prefixes[i] + "<" + std::to_string(count_[i] + 1) + ">;\n";
  }
  if (shared > 0) text += ".shared .align 16 .b8 memory[" + std::to_string(shared) + "];\n";
  return text + body_ + "ret;\n}\n";
}

std::string ptx_header(int architecture) {
  struct Target {
    int from;
    const char* lines;
  };
  constexpr Target targets[] = {{90, ".version 7.8\n.target sm_90\n"},
                                {80, ".version 7.0\n.target sm_80\n"},
                                {0, ".version 6.3\n.target sm_75\n"}};
  for (const Target& target : targets) {
    if (architecture >= target.from) return std::string(target.lines) + ".address_size 64\n";
  }
  return {};
}

}  // namespace lamina::cuda
