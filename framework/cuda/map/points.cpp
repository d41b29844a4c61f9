// Part of the generator of Map kernels, see generator.h: which points are a thread's, and where arrays begin for it.

#include "lamina/cuda/map/generator.h"

#include <algorithm>

#include "lamina/base/math.h"

namespace lamina::cuda {

bool Generator::along_piece(int node) const { return (axes_[static_cast<std::size_t>(node)] & walked_) != 0; }

bool Generator::along_element(int node) const {
  return s_.vector >= 0 && ((axes_[static_cast<std::size_t>(node)] >> s_.vector) & 1u) != 0;
}

std::int64_t Generator::packs(std::size_t axis) const {
  return static_cast<int>(axis) == s_.vector ? extent(axis) / s_.pack : extent(axis);
}

std::int64_t Generator::groups_of(std::size_t axis) const {
  if (s_.staged >= 0 && (static_cast<int>(axis) == s_.vector || static_cast<int>(axis) == s_.staged)) {
    return detail::ceil_div<std::int64_t>(extent(axis), s_.tile);
  }
  return static_cast<int>(axis) == s_.repeated ? detail::ceil_div(packs(axis), s_.steps) : packs(axis);
}

void Generator::count() {
  const auto rank = static_cast<int>(p_.extents.size());
  const auto add = [&](int axis) {
    const auto a = static_cast<std::size_t>(axis);
    if (p_.reduces(a)) {
      if (packs(a) > 1) walk_.push_back(a), walked_ |= 1u << a, share_ *= packs(a);
    } else {
      if (axis == s_.repeated || axis == s_.staged) walk_.push_back(a), walked_ |= 1u << a, share_ *= packs(a);
      kept_.push_back(a);
      groups_ *= groups_of(a);
    }
  };
  if (s_.vector >= 0) add(s_.vector);
  for (int axis = rank; axis-- > 0;) {
    if (axis != s_.vector) add(axis);
  }
  coordinates_.resize(p_.extents.size());
  kernel_.inputs = static_cast<int>(alignment_.inputs.size()),
  kernel_.outputs = static_cast<int>(alignment_.outputs.size());
  slots_ = s_.staged >= 0 ? 1 : s_.threads / s_.lanes;
  kernel_.blocks = detail::ceil_div(groups_, slots_);
  folds_ = s_.vector >= 0 && p_.reduces(static_cast<std::size_t>(s_.vector));
}

void Generator::find_points() {
  tid_ = t_.special("tid.x");
  const std::string block = t_.special("ctaid.x");
  std::string slot = tid_;
  if (s_.lanes > 1) {
    const std::string quotient = t_.quotient(tid_, s_.adjacent ? s_.lanes : slots_);
    const std::string rest = t_.rest(tid_, quotient, s_.adjacent ? s_.lanes : slots_);
    slot = s_.adjacent ? quotient : rest, lane_ = s_.adjacent ? rest : quotient;
  }
  slot_ = slot;
  group_ = s_.staged >= 0 ? block : t_.let(Bank::b32, "mad.lo.u32", block, slots_, slot);
  if (groups_ % slots_ != 0) {  // the threads that are too many do what the last one does, but for storing
    exists_ = t_.let(Bank::predicate, "setp.lt.u32", group_, groups_);
    group_ = t_.let(Bank::b32, "min.u32", group_, groups_ - 1);
  }
  std::string rest = group_;
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const std::size_t axis = kept_[i];
    const bool repeated = static_cast<int>(axis) == s_.repeated;
    const std::int64_t size = groups_of(axis);
    const std::string quotient = i + 1 == kept_.size() ? "" : t_.quotient(rest, size);
    std::string at = i + 1 == kept_.size() ? rest : t_.rest(rest, quotient, size);
    const bool tiled = s_.staged >= 0 && (static_cast<int>(axis) == s_.vector || static_cast<int>(axis) == s_.staged);
    const int elements = tiled ? s_.tile : static_cast<int>(axis) == s_.vector ? s_.pack : 1;
    if (elements > 1) at = t_.let(Bank::b32, "mul.lo.u32", at, elements);
    if (repeated) {
      start_ = at, stride_ = size;
    } else {
      coordinates_[axis] = {at, 0};
    }
    rest = quotient;
  }
  if (s_.staged >= 0) return find_place_in_tile();
  if (s_.repeated >= 0 || walk_.empty()) return;
  stride_ = s_.lanes;
  start_ = lane_;
  if (s_.parts > 1) {
    const std::string part = t_.special("ctaid.y");
    start_ = lane_.empty() ? t_.let(Bank::b32, "mul.lo.u32", part, s_.steps * s_.lanes)
                           : t_.let(Bank::b32, "mad.lo.u32", part, s_.steps * s_.lanes, lane_);
  }
}

void Generator::find_place_in_tile() {
  tile_ = {coordinates_[static_cast<std::size_t>(s_.vector)].reg,
           coordinates_[static_cast<std::size_t>(s_.staged)].reg};
  const std::int64_t across = s_.tile / s_.pack;
  const std::string row = t_.quotient(tid_, across), pack = t_.rest(tid_, row, across);
  in_tile_ = {t_.let(Bank::b32, "mul.lo.u32", pack, s_.pack), row};
  const std::string at = t_.let(Bank::b32, "add.u32", tile_[0], in_tile_[0]);
  const std::int64_t size = extent(static_cast<std::size_t>(s_.vector));
  exists_ = t_.let(Bank::predicate, "setp.lt.u32", at, size);
  coordinates_[static_cast<std::size_t>(s_.vector)] = {t_.let(Bank::b32, "min.u32", at, size - s_.pack), 0};
  start_ = t_.let(Bank::b32, "add.u32", tile_[1], row);
  stride_ = s_.threads / across;
}

void Generator::find_bases() {
  for (const MapView& view : p_.loads) {
    for (const MapView::Table& table : view.tables) {
      tables_[&table] = pointer(kernel_.inputs + kernel_.outputs + static_cast<int>(kernel_.tables.size()));
      kernel_.tables.push_back(&table);
    }
  }
  for (const MapView& view : p_.loads) {
    placed_.push_back(has_place(view));
    load_bases_.push_back(base(view, view.array, is_staged(view, s_), placed_.back()));
  }
  for (const auto& store : p_.stores)
    store_bases_.push_back(base(store.view, kernel_.inputs + store.view.array, false, true));
}

bool Generator::has_place(const MapView& view) const {
  const auto is_there = [&](const MapView::Table& table) {
    for (std::size_t a = 0; a < table.strides.size(); ++a) {
      const bool walked = ((walked_ >> a) & 1u) != 0 || static_cast<int>(a) == s_.vector;
      if (walked && table.strides[a] != 0) return false;
    }
    return *std::min_element(table.entries->begin(), table.entries->end()) >= 0;
  };
  return view.guards.empty() && std::all_of(view.tables.begin(), view.tables.end(), is_there);
}

std::string Generator::pointer(int parameter) {
  const std::string raw = t_.let(Bank::b64, "ld.param.u64", "[p" + std::to_string(parameter) + "]");
  return t_.let(Bank::b64, "cvta.to.global.u64", raw);
}

std::string Generator::base(const MapView& view, int parameter, bool staged, bool placed) {
  std::string address = pointer(parameter);
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  if (view.offset != 0) address = t_.let(Bank::b64, "add.s64", address, view.offset * size);
  for (const std::size_t axis : kept_) {
    const bool tiled = staged && static_cast<int>(axis) == s_.vector;
    if (static_cast<int>(axis) != s_.repeated && static_cast<int>(axis) != s_.staged && !tiled)
      address = t_.advanced(address, coordinates_[axis].reg, view.strides[axis] * size);
  }
  if (!placed) return address;
  for (const MapView::Table& table : view.tables) {
    const std::string entry = t_.fresh(Bank::b32);
    const std::string from = t_.advanced(tables_.at(&table), sum_of(table.strides, table.offset, -1, 0), 4);
    t_.line("ld.global.nc.s32", entry, "[" + from + "]");
    address = t_.advanced(address, entry, size);
  }
  return address;
}

}  // namespace lamina::cuda
