// Part of the generator of Map kernels, see generator.h: squares of elements that turn in shared memory.

#include "lamina/cuda/map/generator.h"

#include <algorithm>

namespace lamina::cuda {

void Generator::stage() {
  const std::int64_t across = s_.tile / s_.staged_pack, together = s_.threads / across;
  const std::string row = t_.quotient(tid_, across), pack = t_.rest(tid_, row, across);
  const std::string element = t_.let(Bank::b32, "mul.lo.u32", pack, s_.staged_pack);
  const std::string x = t_.let(Bank::b32, "add.u32", tile_[1], element),
                    v = t_.let(Bank::b32, "add.u32", tile_[0], row);
  const std::string there = t_.let(Bank::predicate, "setp.lt.u32", x, extent(static_cast<std::size_t>(s_.staged)));
  struct Square {
    Words words;
    std::string to;
    std::int64_t bytes;
  };
  std::vector<Square> squares;
  for (std::size_t i = 0; i < p_.loads.size(); ++i) {
    const MapView& view = p_.loads[i];
    if (!is_staged(view, s_)) continue;
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    staged_[i] = shared(s_.tile * pitch_of(view, s_));
    const std::string base = t_.advanced(load_bases_[i], x, size);
    const std::string from = t_.advanced(base, v, view.strides[static_cast<std::size_t>(s_.vector)] * size);
    const std::string memory =
        t_.let(Bank::b32, "mad.lo.u32", row, pitch_of(view, s_), t_.let(Bank::b32, "mov.u32", "memory"));
    const std::string to = t_.let(Bank::b32, "mad.lo.u32", element, size, memory);
    for (std::int64_t k = 0; k < s_.tile; k += together) {
      std::string exists = there;
      if (extent(static_cast<std::size_t>(s_.vector)) % s_.tile != 0) {
        const std::string at = t_.let(Bank::b32, "add.u32", v, k);
        exists = t_.let(Bank::predicate, "setp.lt.and.u32", at, extent(static_cast<std::size_t>(s_.vector)), there);
      }
      const int packed = most_packed(view, s_.staged, alignment_.inputs[static_cast<std::size_t>(view.array)]);
      const std::int64_t bytes = k * view.strides[static_cast<std::size_t>(s_.vector)] * size;
      squares.push_back(
          {elements_.load(view.dtype, from, bytes, s_.staged_pack, std::min(s_.staged_pack, packed), exists), to,
           staged_[i] + k * pitch_of(view, s_)});
    }
  }
  for (const Square& square : squares) {
    for (std::size_t w = 0; w < square.words.registers.size(); ++w) {
      const std::int64_t at = square.bytes + static_cast<std::int64_t>(w) * square.words.bytes;
      t_.line("st.shared.b" + std::to_string(8 * square.words.bytes), "[" + square.to + "+" + std::to_string(at) + "]",
              square.words.registers[w]);
    }
  }
  t_.line("bar.sync", 0);
}

Words Generator::from_square(std::size_t load, int piece) {
  const MapView& view = p_.loads[load];
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  std::string& at = squares_[load];
  if (at.empty()) {
    const std::string memory =
        t_.let(Bank::b32, "mad.lo.u32", in_tile_[0], pitch_of(view, s_), t_.let(Bank::b32, "mov.u32", "memory"));
    at = t_.let(Bank::b32, "mad.lo.u32", in_tile_[1], size, memory);
  }
  Words words{{}, static_cast<int>(size)};
  for (int j = 0; j < s_.pack; ++j) {
    const std::int64_t bytes = staged_[load] + j * pitch_of(view, s_) + piece * stride_ * size;
    words.registers.push_back(t_.let(size == 8 ? Bank::b64 : Bank::b32,
                                     "ld.shared." + std::string(size < 4 ? "u" : "b") + std::to_string(8 * size),
                                     "[" + at + "+" + std::to_string(bytes) + "]"));
  }
  return words;
}

}  // namespace lamina::cuda
