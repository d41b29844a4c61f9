// Part of the generator of Map kernels, see generator.h: loads, and the values of nodes.

#include "lamina/cuda/map/generator.h"

#include <algorithm>
#include <tuple>

#include "lamina/base/error.h"

namespace lamina::cuda {

Generator::Index Generator::coordinate(std::size_t axis, int piece) const {
  for (std::size_t i = 0; i < walk_.size(); ++i) {
    if (walk_[i] == axis) return pieces_[static_cast<std::size_t>(piece)].at[i];
  }
  return coordinates_[axis];
}

Generator::Place Generator::place(const MapView& view, const std::string& base, int piece) {
  Place result{base, 0};
  if (piece < 0) return result;
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  std::string key = base;
  std::vector<std::pair<std::string, std::int64_t>> steps;
  for (std::size_t i = 0; i < walk_.size(); ++i) {
    const Index& at = pieces_[static_cast<std::size_t>(piece)].at[i];
    const std::int64_t bytes = view.strides[walk_[i]] * size;
    result.bytes += at.number * bytes;
    if (bytes != 0 && !at.reg.empty()) steps.emplace_back(at.reg, bytes), key += " " + at.reg;
  }
  std::string& address = places_[key];
  if (address.empty()) {
    address = base;
    for (const auto& [reg, bytes] : steps) address = t_.advanced(address, reg, bytes);
  }
  result.address = address;
  if (result.bytes != static_cast<std::int32_t>(result.bytes)) {
    result = {t_.let(Bank::b64, "add.s64", address, result.bytes), 0};
  }
  return result;
}

std::string Generator::sum_of(const MapAxes& strides, std::int64_t offset, int piece, int j) {
  std::string sum;
  for (std::size_t a = 0; a < strides.size(); ++a) {
    if (strides[a] == 0) continue;
    const Index at = coordinate(a, std::max(piece, 0));
    offset += (at.number + (static_cast<int>(a) == s_.vector ? j : 0)) * strides[a];
    if (at.reg.empty()) continue;
    sum = sum.empty() ? t_.let(Bank::b32, "mul.lo.s32", at.reg, strides[a])
                      : t_.let(Bank::b32, "mad.lo.s32", at.reg, strides[a], sum);
  }
  return whole({sum, offset});
}

int Generator::piece_of_words(int i, int piece) const {
  return !along_piece(i) ? -1 : is_interleaved(load_of(i), s_) ? 0 : piece;
}

void Generator::load(int i, int piece) {
  const MapView& view = load_of(i);
  piece = piece_of_words(i, piece);
  if (words_.contains({i, piece})) return;
  const std::string& base = load_bases_[static_cast<std::size_t>(node(i).view)];
  const bool many = along_element(i);
  const std::string exists = piece < 0 ? "" : pieces_[static_cast<std::size_t>(piece)].exists;
  const bool each = many && most_packed(view, s_.vector, 16) == 1 && s_.pack > 1;
  Loaded& loaded = words_[{i, piece}];
  if (is_staged(view, s_)) {
    loaded.packs.push_back(from_square(static_cast<std::size_t>(node(i).view), piece));
    return;
  }
  const std::size_t alignment = alignment_.inputs[static_cast<std::size_t>(view.array)];
  if (is_interleaved(view, s_)) {
    const Place at = place(view, base, piece);
    loaded.packs.push_back(elements_.load(view.dtype, at.address, at.bytes, s_.pack * static_cast<int>(s_.steps),
                                          most_interleaved(view, s_, alignment), ""));
    return;
  }
  const int packs = each ? s_.pack : 1;
  const bool placed = placed_[static_cast<std::size_t>(node(i).view)];
  for (int j = 0; j < packs; ++j) {
    Place at = place(view, base, piece);
    std::string inside = exists;
    if (!placed) std::tie(at, inside) = guarded(view, at, exists, piece, j);
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    if (each) at.bytes += view.strides[static_cast<std::size_t>(s_.vector)] * j * size;
    const int count = many && !each ? s_.pack : 1;
    const int together = most_packed(view, s_.vector, alignment);
    loaded.packs.push_back(elements_.load(view.dtype, at.address, at.bytes, count, std::min(count, together), inside));
    if (!placed) loaded.inside.push_back(inside);
  }
}

std::pair<Generator::Place, std::string> Generator::guarded(const MapView& view, Place at, std::string inside,
                                                            int piece, int j) {
  const auto both = [&](const std::string& other) {
    inside = inside.empty() ? other : t_.let(Bank::predicate, "and.pred", inside, other);
  };
  for (const MapView::Guard& guard : view.guards) {  // as unsigned numbers those below 0 are too large
    both(t_.let(Bank::predicate, "setp.lt.u32", sum_of(guard.strides, guard.offset, piece, j), guard.extent));
  }
  for (const MapView::Table& table : view.tables) {
    const std::string entry = t_.fresh(Bank::b32);
    t_.line("mov.u32", entry, -1);
    const std::string from = t_.advanced(tables_.at(&table), sum_of(table.strides, table.offset, piece, j), 4);
    t_.line_if(inside, "ld.global.nc.s32", entry, "[" + from + "]");
    both(t_.let(Bank::predicate, "setp.ge.s32", entry, 0));
    at.address = t_.advanced(at.address, entry, static_cast<std::int64_t>(size_of(view.dtype)));
  }
  return {at, inside};
}

std::string Generator::value(int i, int piece, int j) {
  if (!along_piece(i)) piece = -1;
  if (!along_element(i)) j = -1;
  const std::array<int, 3> key = {i, piece, j};
  if (const auto found = values_.find(key); found != values_.end()) return found->second;
  const MapNode& n = node(i);
  std::string result;
  switch (n.kind) {
    case MapNode::Kind::number: return elements_.number(n.number);
    case MapNode::Kind::load: {
      load(i, piece);
      const MapView& view = load_of(i);
      const Loaded& loaded = words_.at({i, piece_of_words(i, piece)});
      if (is_interleaved(view, s_)) {
        result = elements_.unpacked(view.dtype, loaded.packs[0], j * static_cast<int>(s_.steps) + piece);
        break;
      }
      const auto pack = loaded.packs.size() > 1 ? static_cast<std::size_t>(j) : 0;
      result = elements_.unpacked(view.dtype, loaded.packs[pack], loaded.packs.size() > 1 ? 0 : std::max(j, 0));
      if (!loaded.inside.empty() && !loaded.inside[pack].empty()) {
        result = t_.let(elements_.bank(), "selp." + elements_.type(), result, elements_.number(view.fill),
                        loaded.inside[pack]);
      }
      break;
    }
    case MapNode::Kind::function: {
      std::vector<std::string> operands;
      for (const int from : n.from) {
        if (from >= 0) operands.push_back(elements_.in_register(value(from, piece, j)));
      }
      result = functions_.apply(t_, n.function, p_.compute, rounded_to_16(), operands, called_);
      break;
    }
    case MapNode::Kind::reduce: detail::fail("node ", i, " of a map is read before it is reduced");
  }
  return values_[key] = result;
}

bool Generator::rounded_to_16() const {
  return std::all_of(p_.stores.begin(), p_.stores.end(), [](const MapProblem::Store& store) {
    return is_activation(store.view.dtype) && size_of(store.view.dtype) == 2;
  });
}

}  // namespace lamina::cuda
