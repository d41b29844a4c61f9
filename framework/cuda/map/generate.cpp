// Writes the kernel of a Map: every thread finds its points, walks through its share of what is reduced (or repeated),
// meets the others where there is a reduction, and stores.
//
// What a node's value depends on decides where it is computed: values are kept by (node, piece, element), a piece being
// one of the steps that stand in the text one after the other, and what does not depend on the piece or on the element
// is computed once. That is all the hoisting there is.

#include "lamina/cuda/map/generate.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/map/elements.h"

namespace lamina::cuda {
namespace {

constexpr std::int64_t most_plain = 16;  // numbers that are added up without compensation

/// A coordinate: a register's value, if there is one, and a number.
struct Index {
  std::string reg;
  std::int64_t number = 0;
};

class Generator {
 public:
  Generator(const MapProblem& problem, const MapSchedule& schedule, const MapAlignment& alignment,
            const PtxFunctions& functions, int architecture)
      : p_(problem), s_(schedule), alignment_(alignment), functions_(functions), architecture_(architecture),
        axes_(dependence(problem)), elements_(t_, problem.compute, architecture) {}

  MapKernel write(std::string_view name) {
    count();
    find_points();
    if (architecture_ >= 90) t_.line("griddepcontrol.launch_dependents"), t_.line("griddepcontrol.wait");
    find_bases();
    if (s_.staged >= 0) stage();
    for (const std::vector<int>& reductions : passes()) pass(reductions);
    if (s_.parts > 1) {
      meet_blocks();
    } else {
      store_all();
    }
    kernel_.threads = s_.threads;
    kernel_.parts = s_.parts;
    const int parameters = kernel_.inputs + kernel_.outputs + static_cast<int>(kernel_.tables.size()) + (s_.parts > 1 ? 2 : 0);
    kernel_.text = t_.entry(name, parameters, s_.threads, shared_);
    kernel_.called = called_;
    kernel_.lines = t_.lines();
    return std::move(kernel_);
  }

 private:
  bool along_piece(int node) const { return (axes_[static_cast<std::size_t>(node)] & walked_) != 0; }
  bool along_element(int node) const {
    return s_.vector >= 0 && ((axes_[static_cast<std::size_t>(node)] >> s_.vector) & 1u) != 0;
  }
  const MapNode& node(int i) const { return p_.nodes[static_cast<std::size_t>(i)]; }
  const MapView& load_of(int i) const { return p_.loads[static_cast<std::size_t>(node(i).view)]; }
  std::int64_t extent(std::size_t axis) const { return p_.extents[axis]; }
  /// Of an axis, in packs where it is theirs.
  std::int64_t packs(std::size_t axis) const { return static_cast<int>(axis) == s_.vector ? extent(axis) / s_.pack : extent(axis); }

  /// Of a kept axis: its packs, or what a block or a thread has of several.
  std::int64_t groups_of(std::size_t axis) const {
    if (s_.staged >= 0 && (static_cast<int>(axis) == s_.vector || static_cast<int>(axis) == s_.staged)) {
      return detail::ceil_div<std::int64_t>(extent(axis), s_.tile);
    }
    return static_cast<int>(axis) == s_.repeated ? detail::ceil_div(packs(axis), s_.steps) : packs(axis);
  }

  /// Kept and walked axes, each from the one that is counted first.
  void count() {
    const auto rank = static_cast<int>(p_.extents.size());
    const auto add = [&](int axis) {
      const auto a = static_cast<std::size_t>(axis);
      if (p_.reduces(a)) {
        walk_.push_back(a), walked_ |= 1u << a, share_ *= packs(a);
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
    for (const MapView& view : p_.loads) kernel_.inputs = std::max(kernel_.inputs, view.array + 1);
    for (const auto& store : p_.stores) kernel_.outputs = std::max(kernel_.outputs, store.view.array + 1);
    slots_ = s_.staged >= 0 ? 1 : s_.threads / s_.lanes;
    kernel_.blocks = detail::ceil_div(groups_, slots_);
    neighbours_ = s_.vector >= 0 && p_.reduces(static_cast<std::size_t>(s_.vector));
  }

  /// Which points are the thread's.
  void find_points() {
    tid_ = t_.special("tid.x");
    const std::string block = t_.special("ctaid.x");
    std::string slot = tid_;
    if (s_.lanes > 1) {
      const std::string quotient = t_.quotient(tid_, neighbours_ ? s_.lanes : slots_);
      const std::string rest = t_.rest(tid_, quotient, neighbours_ ? s_.lanes : slots_);
      slot = neighbours_ ? quotient : rest, lane_ = neighbours_ ? rest : quotient;
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

  /// A thread has a pack along the one axis at some places along the other.
  void find_place_in_tile() {
    tile_ = {coordinates_[static_cast<std::size_t>(s_.vector)].reg, coordinates_[static_cast<std::size_t>(s_.staged)].reg};
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

  /// Bytes from one element along `vector` to the next in shared memory: another bank.
  std::int64_t pitch(const MapView& view) const {
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    return s_.tile * size + std::max<std::int64_t>(size, 4);
  }

  /// Brings the block's squares of staged loads into shared memory, [vector][staged].
  void stage() {
    const std::int64_t across = s_.tile / s_.staged_pack, together = s_.threads / across;
    const std::string row = t_.quotient(tid_, across), pack = t_.rest(tid_, row, across);
    const std::string element = t_.let(Bank::b32, "mul.lo.u32", pack, s_.staged_pack);
    const std::string x = t_.let(Bank::b32, "add.u32", tile_[1], element), v = t_.let(Bank::b32, "add.u32", tile_[0], row);
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
      staged_[i] = shared_ = detail::round_up<std::int64_t>(shared_, 16);
      const std::string base = t_.advanced(load_bases_[i], x, size);
      const std::string from = t_.advanced(base, v, view.strides[static_cast<std::size_t>(s_.vector)] * size);
      const std::string memory = t_.let(Bank::b32, "mad.lo.u32", row, pitch(view), t_.let(Bank::b32, "mov.u32", "memory"));
      const std::string to = t_.let(Bank::b32, "mad.lo.u32", element, size, memory);
      for (std::int64_t k = 0; k < s_.tile; k += together) {
        std::string exists = there;
        if (extent(static_cast<std::size_t>(s_.vector)) % s_.tile != 0) {
          const std::string at = t_.let(Bank::b32, "add.u32", v, k);
          exists = t_.let(Bank::predicate, "setp.lt.and.u32", at, extent(static_cast<std::size_t>(s_.vector)), there);
        }
        const int packed = most_packed(view, s_.staged, alignment_.inputs[static_cast<std::size_t>(view.array)]);
        const std::int64_t bytes = k * view.strides[static_cast<std::size_t>(s_.vector)] * size;
        squares.push_back({elements_.load(view.dtype, from, bytes, s_.staged_pack, std::min(s_.staged_pack, packed), exists), to, staged_[i] + k * pitch(view)});
      }
      shared_ += s_.tile * pitch(view);
    }
    for (const Square& square : squares) {
      for (std::size_t w = 0; w < square.words.registers.size(); ++w) {
        const std::int64_t at = square.bytes + static_cast<std::int64_t>(w) * square.words.bytes;
        t_.line("st.shared.b" + std::to_string(8 * square.words.bytes), "[" + square.to + "+" + std::to_string(at) + "]", square.words.registers[w]);
      }
    }
    t_.line("bar.sync", 0);
  }

  /// A thread's own elements of a square.
  Words from_square(std::size_t load, int piece) {
    const MapView& view = p_.loads[load];
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    std::string& at = squares_[load];
    if (at.empty()) {
      const std::string memory = t_.let(Bank::b32, "mad.lo.u32", in_tile_[0], pitch(view), t_.let(Bank::b32, "mov.u32", "memory"));
      at = t_.let(Bank::b32, "mad.lo.u32", in_tile_[1], size, memory);
    }
    Words words{{}, static_cast<int>(size)};
    for (int j = 0; j < s_.pack; ++j) {
      const std::int64_t bytes = staged_[load] + j * pitch(view) + piece * stride_ * size;
      words.registers.push_back(t_.let(size == 8 ? Bank::b64 : Bank::b32, "ld.shared." + std::string(size < 4 ? "u" : "b") + std::to_string(8 * size), "[" + at + "+" + std::to_string(bytes) + "]"));
    }
    return words;
  }

  void find_bases() {
    for (std::size_t i = 0; i < p_.loads.size(); ++i) load_bases_.push_back(base(p_.loads[i], p_.loads[i].array));
    for (const auto& store : p_.stores) store_bases_.push_back(base(store.view, kernel_.inputs + store.view.array));
    for (const MapView& view : p_.loads) {
      for (const MapView::Table& table : view.tables) {
        tables_[&table] = pointer(kernel_.inputs + kernel_.outputs + static_cast<int>(kernel_.tables.size()));
        kernel_.tables.push_back(&table);
      }
    }
  }

  std::string pointer(int parameter) {
    const std::string raw = t_.let(Bank::b64, "ld.param.u64", "[p" + std::to_string(parameter) + "]");
    return t_.let(Bank::b64, "cvta.to.global.u64", raw);
  }

  /// The address of a view's element at the kept coordinates.
  std::string base(const MapView& view, int parameter) {
    std::string address = pointer(parameter);
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    if (view.offset != 0) address = t_.let(Bank::b64, "add.s64", address, view.offset * size);
    for (const std::size_t axis : kept_) {
      const bool tiled = is_staged(view, s_) && static_cast<int>(axis) == s_.vector;
      if (static_cast<int>(axis) != s_.repeated && static_cast<int>(axis) != s_.staged && !tiled) address = t_.advanced(address, coordinates_[axis].reg, view.strides[axis] * size);
    }
    return address;
  }

  /// Reductions that wait for none of each other, in their order.
  std::vector<std::vector<int>> passes() const {
    std::vector<std::vector<int>> result;
    std::vector<std::size_t> depth;
    for (std::size_t i = 0; i < p_.nodes.size(); ++i) {
      std::size_t mine = 0;
      for (const int from : p_.nodes[i].from) {
        if (from >= 0) mine = std::max(mine, depth[static_cast<std::size_t>(from)]);
      }
      if (p_.nodes[i].kind == MapNode::Kind::reduce) {
        if (result.size() <= mine) result.resize(mine + 1);
        result[mine].push_back(static_cast<int>(i));
        ++mine;
      }
      depth.push_back(mine);
    }
    return result;
  }

  // ---- steps ---------------------------------------------------------------------------------------------------------

  /// A loop around what body() writes.
  template <class F>
  void repeat(std::int64_t times, F&& body) {
    const std::string count = t_.let(Bank::b32, "mov.u32", 0), loop = t_.fresh_label();
    t_.place(loop);
    body();
    t_.line("add.u32", count, count, 1);
    t_.line_if(t_.let(Bank::predicate, "setp.lt.u32", count, times), "bra", loop);
  }

  /// Calls body() with every piece's coordinates set, in a loop where a thread has more steps than stand in the text.
  /// `wanted`: the nodes that it needs.
  template <class F>
  void walk(const std::vector<int>& wanted, F&& body) {
    for (const int node : wanted) prepare(node);
    if (walk_.empty()) {
      pieces_.assign(1, {});
      return body();
    }
    if (s_.pieces < s_.steps) {
      forget();
      const std::string at = t_.let(Bank::b32, "mov.u32", start_.empty() ? "0" : start_);
      repeat(s_.steps / s_.pieces, [&] {
        set_pieces(at);
        fetch(wanted);
        body();
        t_.line("add.u32", at, at, stride_ * s_.pieces);
      });
      return forget();
    }
    if (pieces_.empty()) set_pieces(start_);
    fetch(wanted);
    body();
  }

  void set_pieces(const std::string& at) {
    pieces_.assign(static_cast<std::size_t>(s_.pieces), {});
    const std::int64_t all = s_.staged >= 0 ? groups_of(walk_[0]) * s_.tile : s_.repeated >= 0 ? s_.steps * stride_ : s_.steps * s_.lanes * s_.parts;
    for (std::int64_t u = 0; u < s_.pieces; ++u) {
      Piece& piece = pieces_[static_cast<std::size_t>(u)];
      Index index{at, u * stride_};
      if (all != share_ && (s_.staged >= 0 || s_.pieces < s_.steps || s_.parts > 1 || all - share_ >= (s_.pieces - 1 - u) * stride_)) {
        piece.exists = t_.let(Bank::predicate, "setp.lt.u32", whole(index), share_);
      }
      for (std::size_t i = 0; i < walk_.size(); ++i) {
        const std::size_t axis = walk_[i];
        const std::int64_t size = packs(axis);
        Index mine = index;
        if (i + 1 < walk_.size()) {
          if (index.reg.empty()) {
            mine.number = index.number % size, index.number /= size;
          } else {
            const std::string n = whole(index), quotient = t_.quotient(n, size);
            mine = {t_.rest(n, quotient, size), 0}, index = {quotient, 0};
          }
        }
        if (static_cast<int>(axis) == s_.vector && s_.pack > 1) {
          mine.number *= s_.pack;
          if (!mine.reg.empty()) mine.reg = scaled(mine.reg);
        }
        piece.at.push_back(mine);
      }
    }
  }

  /// The pack's first element; once for all pieces that count on from the same register.
  std::string scaled(const std::string& reg) {
    std::string& found = scaled_[reg];
    if (found.empty()) found = t_.let(Bank::b32, "mul.lo.u32", reg, s_.pack);
    return found;
  }

  std::string whole(const Index& index) {
    if (index.reg.empty()) return t_.let(Bank::b32, "mov.u32", index.number);
    return index.number == 0 ? index.reg : t_.let(Bank::b32, "add.u32", index.reg, index.number);
  }

  void forget() {
    std::erase_if(values_, [&](const auto& one) { return along_piece(one.first[0]); });
    std::erase_if(words_, [&](const auto& one) { return along_piece(one.first[0]); });
    places_.clear(), scaled_.clear();
  }

  /// What a thread's steps have in common, before they begin.
  void prepare(int i) {
    if (walk_.empty()) return;
    if (!along_piece(i)) {
      if (node(i).kind == MapNode::Kind::load) {
        load(i, -1);
      } else if (node(i).kind != MapNode::Kind::number) {
        for (int j = 0; j < (along_element(i) ? s_.pack : 1); ++j) value(i, 0, j);
      }
      return;
    }
    for (const int from : node(i).from) {
      if (from >= 0 && node(i).kind != MapNode::Kind::reduce) prepare(from);
    }
  }

  /// All loads before anything waits for one.
  void fetch(const std::vector<int>& wanted) {
    std::vector<bool> needed(p_.nodes.size());
    for (const int i : wanted) needed[static_cast<std::size_t>(i)] = true;
    for (std::size_t i = p_.nodes.size(); i-- > 0;) {
      if (!needed[i] || values_.contains({static_cast<int>(i), -1, -1})) continue;
      for (const int from : p_.nodes[i].from) {
        if (from >= 0) needed[static_cast<std::size_t>(from)] = true;
      }
    }
    for (std::size_t u = 0; u < pieces_.size(); ++u) {
      for (std::size_t i = 0; i < p_.nodes.size(); ++i) {
        if (needed[i] && p_.nodes[i].kind == MapNode::Kind::load && along_piece(static_cast<int>(i))) {
          load(static_cast<int>(i), static_cast<int>(u));
        }
      }
    }
  }

  // ---- values --------------------------------------------------------------------------------------------------------

  Index coordinate(std::size_t axis, int piece) const {
    for (std::size_t i = 0; i < walk_.size(); ++i) {
      if (walk_[i] == axis) return pieces_[static_cast<std::size_t>(piece)].at[i];
    }
    return coordinates_[axis];
  }

  /// Where a view's element of a piece lies: an address and bytes behind it.
  struct Place {
    std::string address;
    std::int64_t bytes = 0;
    std::string text() const { return "[" + address + (bytes < 0 ? "" : "+") + std::to_string(bytes) + "]"; }
  };
  Place place(const MapView& view, const std::string& base, int piece) {
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

  /// offset + the sum of coordinates * strides, of element j of a pack.
  std::string sum_of(const MapAxes& strides, std::int64_t offset, int piece, int j) {
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

  /// Brings a node's elements of a piece into registers, as they are stored.
  void load(int i, int piece) {
    if (!along_piece(i)) piece = -1;
    if (words_.contains({i, piece})) return;
    const MapView& view = load_of(i);
    const std::string& base = load_bases_[static_cast<std::size_t>(node(i).view)];
    const bool many = along_element(i);
    const std::string exists = piece < 0 ? "" : pieces_[static_cast<std::size_t>(piece)].exists;
    const bool each = many && most_packed(view, s_.vector, 16) == 1 && s_.pack > 1;
    Loaded& loaded = words_[{i, piece}];
    if (is_staged(view, s_)) {
      loaded.packs.push_back(from_square(static_cast<std::size_t>(node(i).view), piece));
      return;
    }
    const int packs = each ? s_.pack : 1;
    for (int j = 0; j < packs; ++j) {
      Place at = place(view, base, piece);
      std::string inside = exists;
      if (!view.is_dense()) std::tie(at, inside) = guarded(view, at, exists, piece, j);
      const auto size = static_cast<std::int64_t>(size_of(view.dtype));
      if (each) at.bytes += view.strides[static_cast<std::size_t>(s_.vector)] * j * size;
      const int count = many && !each ? s_.pack : 1;
      const int together = most_packed(view, std::max(s_.vector, 0), alignment_.inputs[static_cast<std::size_t>(view.array)]);
      loaded.packs.push_back(elements_.load(view.dtype, at.address, at.bytes, count, std::min(count, together), inside));
      if (!view.is_dense()) loaded.inside.push_back(inside);
    }
  }

  std::pair<Place, std::string> guarded(const MapView& view, Place at, std::string inside, int piece, int j) {
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

  std::string value(int i, int piece, int j) {
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
        const Loaded& loaded = words_.at({i, piece});
        const auto pack = loaded.packs.size() > 1 ? static_cast<std::size_t>(j) : 0;
        result = elements_.unpacked(view.dtype, loaded.packs[pack], loaded.packs.size() > 1 ? 0 : std::max(j, 0));
        if (!loaded.inside.empty() && !loaded.inside[pack].empty()) {
          result = t_.let(elements_.bank(), "selp." + elements_.type(), result, elements_.number(view.fill), loaded.inside[pack]);
        }
        break;
      }
      case MapNode::Kind::function: {
        std::vector<std::string> operands;
        for (const int from : n.from) {
          if (from >= 0) operands.push_back(elements_.in_register(value(from, piece, j)));
        }
        result = functions_.apply(t_, n.function, p_.compute, rounded_to_16(i), operands, called_);
        break;
      }
      case MapNode::Kind::reduce: detail::fail("node ", i, " of a map is read before it is reduced");
    }
    return values_[key] = result;
  }

  /// Whether all that becomes of a node's values is stored in 16 bits.
  bool rounded_to_16(int) const {
    return std::all_of(p_.stores.begin(), p_.stores.end(), [](const MapProblem::Store& store) {
      return is_activation(store.view.dtype) && size_of(store.view.dtype) == 2;
    });
  }

  // ---- reductions ----------------------------------------------------------------------------------------------------

  /// What a thread knows of a reduction: of each element of a pack, or of all.
  struct State {
    MapReduction kind;
    std::vector<std::string> sums, lost;  ///< lost: what additions rounded away; of sums of floats
  };

  State begin(MapReduction kind, std::size_t count, bool compensated) {
    State state{kind, {}, {}};
    for (std::size_t j = 0; j < count; ++j) {
      state.sums.push_back(t_.let(elements_.bank(), "mov." + elements_.type(), elements_.start(kind)));
      if (compensated && kind == MapReduction::sum && is_float(p_.compute)) {
        state.lost.push_back(t_.let(elements_.bank(), "mov." + elements_.type(), elements_.number(0)));
      }
    }
    return state;
  }
  void add(State& state, std::size_t j, const std::string& x, const std::string& exists) {
    if (state.lost.empty()) return elements_.join(state.kind, state.sums[j], x, exists);
    elements_.add_compensated(state.sums[j], state.lost[j], x, exists);
  }
  /// One number for each element.
  std::vector<std::string> settled(State& state) {
    if (state.lost.empty()) return state.sums;
    std::vector<std::string> result;
    for (std::size_t j = 0; j < state.sums.size(); ++j) {
      result.push_back(t_.let(elements_.bank(), "sub.rn." + elements_.type(), state.sums[j], state.lost[j]));
    }
    return result;
  }
  /// All of one, in order.
  std::string folded(MapReduction kind, const std::vector<std::string>& numbers) {
    if (numbers.size() == 1) return numbers[0];
    State state = begin(kind, 1, true);
    for (const std::string& x : numbers) add(state, 0, x, "");
    return settled(state)[0];
  }

  void pass(const std::vector<int>& reductions) {
    std::vector<int> operands;
    for (const int i : reductions) operands.push_back(node(i).from[0]);
    std::vector<State> states;
    for (const int i : operands) {
      const std::size_t count = neighbours_ || along_element(i) ? static_cast<std::size_t>(s_.pack) : 1;
      states.push_back(begin(node(reductions[states.size()]).reduction, count, s_.steps > most_plain));
    }
    walk(operands, [&] {
      for (std::size_t u = 0; u < pieces_.size(); ++u) {
        for (std::size_t r = 0; r < operands.size(); ++r) {
          for (std::size_t j = 0; j < states[r].sums.size(); ++j) {
            add(states[r], j, elements_.in_register(value(operands[r], static_cast<int>(u), static_cast<int>(j))), pieces_[u].exists);
          }
        }
      }
    });
    for (std::size_t r = 0; r < operands.size(); ++r) meet(reductions[r], states[r]);
  }

  /// The threads of a block that share points: all of them know the result then.
  void meet(int i, State& state) {
    std::vector<std::string> sums = settled(state);
    const MapReduction kind = state.kind;
    if (neighbours_) {
      sums = {folded(kind, sums)};
      for (std::int64_t distance = std::min<std::int64_t>(s_.lanes, 32) / 2; distance > 0; distance /= 2) {
        elements_.join(kind, sums[0], elements_.of_neighbour(sums[0], distance), "");
      }
    }
    const std::int64_t sharers = neighbours_ ? s_.lanes / 32 : s_.lanes;
    if (sharers > 1) {
      // [sharers][slots][elements]
      const auto size = static_cast<std::int64_t>(size_of(p_.compute)), row = static_cast<std::int64_t>(sums.size()) * size;
      const std::int64_t first = shared_;
      shared_ += sharers * slots_ * row;
      const std::string memory = t_.let(Bank::b32, "mov.u32", "memory");
      const std::string mine = t_.let(Bank::b32, "mad.lo.u32", slot_, row, memory);
      const std::string sharer = neighbours_ ? t_.quotient(lane_, 32) : lane_;
      const std::string to = t_.let(Bank::b32, "mad.lo.u32", sharer, slots_ * row, mine);
      for (std::size_t j = 0; j < sums.size(); ++j) {
        t_.line("st.shared." + elements_.type(), "[" + to + "+" + std::to_string(first + static_cast<std::int64_t>(j) * size) + "]", sums[j]);
      }
      t_.line("bar.sync", 0);
      State state = begin(kind, sums.size(), true);
      repeat(sharers, [&] {
        for (std::size_t j = 0; j < sums.size(); ++j) {
          const std::string from = "[" + mine + "+" + std::to_string(first + static_cast<std::int64_t>(j) * size) + "]";
          add(state, j, t_.let(elements_.bank(), "ld.shared." + elements_.type(), from), "");
        }
        t_.line("add.u32", mine, mine, slots_ * row);
      });
      sums = settled(state);
    }
    for (std::size_t j = 0; j < sums.size(); ++j) values_[{i, -1, along_element(i) ? static_cast<int>(j) : -1}] = sums[j];
  }

  /// The blocks that share points: each puts down what it knows, and the last to come adds it up, in order.
  void meet_blocks() {
    const int parameters = kernel_.inputs + kernel_.outputs + static_cast<int>(kernel_.tables.size());
    const std::string work = pointer(parameters), counters = pointer(parameters + 1);
    const auto size = static_cast<std::int64_t>(size_of(p_.compute));
    // [numbers][parts][groups]
    std::vector<std::string*> numbers;
    std::vector<MapReduction> kinds;
    for (auto& [key, number] : values_) {
      if (node(key[0]).kind == MapNode::Kind::reduce) numbers.push_back(&number), kinds.push_back(node(key[0]).reduction);
    }
    const std::int64_t plane = s_.parts * groups_ * size;
    kernel_.workspace = plane * static_cast<std::int64_t>(numbers.size());
    kernel_.counters = kernel_.blocks * 4;
    const std::string part = t_.special("ctaid.y"), block = t_.special("ctaid.x");
    const std::string column = t_.advanced(work, group_, size), mine = t_.advanced(column, part, groups_ * size);
    const std::string stores = storing();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::string to = t_.let(Bank::b64, "add.s64", mine, plane * static_cast<std::int64_t>(i));
      t_.line_if(stores, "st.global." + elements_.type(), "[" + to + "]", *numbers[i]);
    }
    t_.line("membar.gl");
    t_.line("bar.sync", 0);
    const std::string waits = t_.fresh_label(), end = t_.fresh_label();
    const std::string first = shared_at(4), seen = t_.fresh(Bank::b32);
    t_.line_if(t_.let(Bank::predicate, "setp.ne.u32", tid_, 0), "bra", waits);
    t_.line("atom.global.inc.u32", seen, "[" + t_.advanced(counters, block, 4) + "]", s_.parts - 1);
    t_.line("st.shared.u32", first, seen);
    t_.place(waits);
    t_.line("bar.sync", 0);
    const std::string last = t_.let(Bank::b32, "ld.shared.u32", first);
    t_.line_if(t_.let(Bank::predicate, "setp.ne.u32", last, s_.parts - 1), "bra", end);
    t_.line("membar.gl");
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      State state = begin(kinds[i], 1, true);
      const std::string from = t_.let(Bank::b64, "add.s64", column, plane * static_cast<std::int64_t>(i));
      repeat(s_.parts, [&] {
        add(state, 0, t_.let(elements_.bank(), "ld.global.cg." + elements_.type(), "[" + from + "]"), "");
        t_.line("add.s64", from, from, groups_ * size);
      });
      *numbers[i] = settled(state)[0];
    }
    store_all();
    t_.place(end);
  }

  std::string shared_at(std::int64_t bytes) {
    shared_ = detail::round_up<std::int64_t>(shared_, 16);
    const std::int64_t at = shared_;
    shared_ += bytes;
    return "[memory+" + std::to_string(at) + "]";
  }

  // ---- results -------------------------------------------------------------------------------------------------------

  /// The thread that stores what several know.
  std::string storing() {
    std::string result = exists_;
    if (!lane_.empty()) {
      const std::string first = t_.let(Bank::predicate, "setp.eq.u32", lane_, 0);
      result = result.empty() ? first : t_.let(Bank::predicate, "and.pred", result, first);
    }
    return result;
  }

  void store_all() {
    std::vector<int> once, each;
    for (std::size_t i = 0; i < p_.stores.size(); ++i) {
      (along_piece(p_.stores[i].node) || s_.repeated >= 0 || s_.staged >= 0 ? each : once).push_back(static_cast<int>(i));
    }
    if (!once.empty()) {
      const std::string who = storing();
      for (const int i : once) store(i, -1, who);
    }
    if (each.empty()) return;
    std::vector<int> nodes;
    for (const int i : each) nodes.push_back(p_.stores[static_cast<std::size_t>(i)].node);
    walk(nodes, [&] {
      for (std::size_t u = 0; u < pieces_.size(); ++u) {
        std::string who = exists_;
        if (!pieces_[u].exists.empty()) who = who.empty() ? pieces_[u].exists : t_.let(Bank::predicate, "and.pred", who, pieces_[u].exists);
        for (const int i : each) store(i, static_cast<int>(u), who);
      }
    });
  }

  void store(int i, int piece, const std::string& who) {
    const MapProblem::Store& result = p_.stores[static_cast<std::size_t>(i)];
    const MapView& view = result.view;
    const std::int64_t step = s_.vector < 0 ? 0 : view.strides[static_cast<std::size_t>(s_.vector)];
    const Place at = place(view, store_bases_[static_cast<std::size_t>(i)], piece);
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    std::vector<std::string> numbers;
    for (int j = 0; j < (step == 0 ? 1 : s_.pack); ++j) numbers.push_back(elements_.in_register(value(result.node, std::max(piece, 0), j)));
    const int together = s_.vector < 0 ? 1 : most_packed(view, s_.vector, alignment_.outputs[static_cast<std::size_t>(view.array)]);
    elements_.store(view.dtype, at.address, at.bytes, numbers, step == 1 ? together : 1, step * size, who);
  }

  /// A step's coordinates along walk_, and a predicate that it is there at all; "": it is.
  struct Piece {
    std::vector<Index> at;
    std::string exists;
  };
  /// A pack, or one of each element; and, of guarded views, predicates that say whether they are there.
  struct Loaded {
    std::vector<Words> packs;
    std::vector<std::string> inside;
  };

  const MapProblem& p_;
  const MapSchedule& s_;
  const MapAlignment& alignment_;
  const PtxFunctions& functions_;
  const int architecture_;
  const std::vector<unsigned> axes_;
  PtxText t_;
  Elements elements_;
  MapKernel kernel_;
  std::set<std::string> called_;

  std::vector<std::size_t> kept_, walk_;  // axes, that which is counted first in front
  unsigned walked_ = 0;                   // the latter as bits
  std::int64_t groups_ = 1;               // packs of kept points
  std::int64_t share_ = 1;                // packs of walked points
  std::int64_t slots_ = 1;                // groups in a block
  std::int64_t stride_ = 1;               // from one step to the next
  bool neighbours_ = false;               // lanes are neighbouring threads
  std::string tid_, slot_, lane_, group_, exists_, start_;
  std::vector<Index> coordinates_;
  std::array<std::string, 2> tile_, in_tile_;  // along `vector` and `staged`: the square's first element, and the thread's
  std::map<std::size_t, std::int64_t> staged_;  // where in shared memory a load's square begins
  std::map<std::size_t, std::string> squares_;  // the thread's address in it
  std::vector<std::string> load_bases_, store_bases_;
  std::map<const MapView::Table*, std::string> tables_;
  std::vector<Piece> pieces_;
  std::map<std::array<int, 3>, std::string> values_;  // by node, piece and element; -1: it does not depend on that
  std::map<std::array<int, 2>, Loaded> words_;        // by node and piece
  std::map<std::string, std::string> places_, scaled_;
  std::int64_t shared_ = 0;
};

}  // namespace

MapKernel generate(const MapProblem& problem, const MapSchedule& schedule, const MapAlignment& alignment,
                   const PtxFunctions& functions, std::string_view name, int architecture) {
  return Generator(problem, schedule, alignment, functions, architecture).write(name);
}

}  // namespace lamina::cuda
