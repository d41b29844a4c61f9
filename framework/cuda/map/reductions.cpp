// Part of the generator of Map kernels, see generator.h: what threads and blocks know of a sum, and how they meet.

#include "lamina/cuda/map/generator.h"

#include <algorithm>
#include <bit>

#include "lamina/base/math.h"

namespace lamina::cuda {

constexpr std::int64_t most_plain = 16;  // numbers that are added up without compensation

Generator::State Generator::begin(MapReduction kind, std::size_t count, bool compensated) {
  State state{kind, {}, compensated && kind == MapReduction::sum && is_float(p_.compute)};
  for (std::size_t j = 0; j < count; ++j) {
    Known known = elements_.nothing(kind);
    if (state.compensated) known.push_back(t_.let(elements_.bank(), "mov." + elements_.type(), elements_.number(0)));
    state.known.push_back(std::move(known));
  }
  return state;
}

void Generator::add(State& state, std::size_t j, const std::string& x, const std::string& exists) {
  Known& known = state.known[j];
  if (state.kind == MapReduction::spread) {
    if (j == 0) state.share = elements_.count_one(known, exists);  // elements of a pack are there together
    return elements_.add_to_spread(known, x, state.share, exists);
  }
  if (!state.compensated) return elements_.join(state.kind, known, {x}, exists);
  elements_.add_compensated(known[0], known[1], x, exists);
}

std::vector<Known> Generator::settled(const State& state) {
  std::vector<Known> result = state.known;
  for (Known& known : result) {
    if (state.compensated) known = {t_.let(elements_.bank(), "sub.rn." + elements_.type(), known[0], known[1])};
    if (state.kind == MapReduction::spread) known.back() = result[0].back();
  }
  return result;
}

Known Generator::folded(MapReduction kind, const std::vector<Known>& several) {
  if (several.size() == 1) return several[0];
  State state = begin(kind, 1, true);
  for (const Known& known : several) add(state, 0, known[0], "");
  return settled(state)[0];
}

int Generator::spread_beside(int sum, const std::vector<int>& reductions) const {
  const int of = node(sum).from[0];
  const bool in_16_bits =
      node(of).kind == MapNode::Kind::load && size_of(p_.loads[static_cast<std::size_t>(node(of).view)].dtype) == 2;
  const auto is_it = [&](int i) { return node(i).is(MapReduction::spread) && node(i).from[0] == of; };
  const auto found = std::ranges::find_if(reductions, is_it);
  return node(sum).is(MapReduction::sum) && in_16_bits && found != reductions.end() ? *found : -1;
}

void Generator::pass(const std::vector<int>& all) {
  std::vector<int> operands, reductions;
  std::map<int, int> beside;
  for (const int i : all) {
    const int spread = spread_beside(i, all);
    if (spread >= 0) beside[i] = spread;
    if (spread < 0) reductions.push_back(i), operands.push_back(node(i).from[0]);
  }
  std::vector<State> states;
  for (const int i : operands) {
    const MapReduction kind = node(reductions[states.size()]).reduction;
    const bool of_elements = folds_ ? kind != MapReduction::spread : along_element(i);
    states.push_back(begin(kind, of_elements ? static_cast<std::size_t>(s_.pack) : 1, s_.steps > most_plain));
  }
  const auto number = [&](std::size_t r, std::size_t piece, int j) {
    return elements_.in_register(value(operands[r], static_cast<int>(piece), j));
  };
  walk(operands, [&] {
    // Spreads of as many numbers as can be halved to the last; of all pieces, if all are there.
    const auto is_there = [](const Piece& piece) { return piece.exists.empty(); };
    const bool at_once = std::has_single_bit(pieces_.size()) && std::ranges::all_of(pieces_, is_there);
    for (std::size_t r = 0; r < operands.size(); ++r) {
      if (!folds_ || states[r].kind != MapReduction::spread) continue;
      std::vector<std::string> numbers;
      for (std::size_t u = 0; u < pieces_.size(); ++u) {
        for (int j = 0; j < s_.pack; ++j) numbers.push_back(number(r, u, j));
        if (at_once && u + 1 < pieces_.size()) continue;
        elements_.join(states[r].kind, states[r].known[0], elements_.spread_of(numbers), pieces_[u].exists);
        numbers.clear();
      }
    }
    for (std::size_t u = 0; u < pieces_.size(); ++u) {
      for (std::size_t r = 0; r < operands.size(); ++r) {
        if (folds_ && states[r].kind == MapReduction::spread) continue;
        for (std::size_t j = 0; j < states[r].known.size(); ++j)
          add(states[r], j, number(r, u, static_cast<int>(j)), pieces_[u].exists);
      }
    }
  });
  std::map<int, std::vector<Known>> sums;
  for (const auto& [sum, spread] : beside) {
    const auto at = static_cast<std::size_t>(std::ranges::find(reductions, spread) - reductions.begin());
    for (const Known& known : settled(states[at]))
      sums[sum].push_back({t_.let(elements_.bank(), "mul.rn." + elements_.type(), known[1], known[2])});
  }
  for (std::size_t r = 0; r < operands.size(); ++r) meet(reductions[r], states[r]);
  for (auto& [sum, known] : sums) keep(sum, met(MapReduction::sum, std::move(known)));
}

void Generator::meet(int i, State& state) {
  std::vector<Known> known = settled(state);
  if (folds_) known = {folded(state.kind, known)};
  keep(i, met(state.kind, std::move(known)));
}

void Generator::keep(int i, std::vector<Known> known) {
  for (std::size_t j = 0; j < known.size(); ++j)
    values_[{i, -1, along_element(i) ? static_cast<int>(j) : -1}] = known[j][0];
  known_[i] = std::move(known);
}

std::vector<Known> Generator::met(MapReduction kind, std::vector<Known> known) {
  // Elements of a pack are counted together.
  const auto is_said = [&](std::size_t j, std::size_t n) { return j > 0 && n == 2; };
  const auto all = [&](auto&& get) {
    std::vector<Known> result(known.size());
    for (std::size_t j = 0; j < known.size(); ++j) {
      for (std::size_t n = 0; n < known[j].size(); ++n) result[j].push_back(is_said(j, n) ? result[0][n] : get(j, n));
    }
    return result;
  };
  for (std::int64_t distance = s_.adjacent ? std::min<std::int64_t>(s_.lanes, 32) / 2 : 0; distance > 0;
       distance /= 2) {
    const auto of_neighbour = [&](std::size_t j, std::size_t n) {
      return elements_.of_neighbour(known[j][n], distance);
    };
    elements_.join(kind, known, all(of_neighbour), "");
  }
  const std::int64_t sharers = s_.adjacent ? s_.lanes / 32 : s_.lanes;
  if (sharers > 1) {
    // [sharers][elements][numbers][slots]
    const auto size = static_cast<std::int64_t>(size_of(p_.compute)),
               numbers = static_cast<std::int64_t>(known[0].size()),
               row = static_cast<std::int64_t>(known.size()) * numbers * size;
    const std::int64_t first = shared(sharers * slots_ * row);
    const std::string memory = t_.let(Bank::b32, "mov.u32", "memory");
    const std::string mine = t_.let(Bank::b32, "mad.lo.u32", slot_, size, memory);
    const std::string sharer = s_.adjacent ? t_.quotient(lane_, 32) : lane_;
    const std::string own = t_.let(Bank::b32, "mad.lo.u32", sharer, slots_ * row, mine);
    const auto place = [&](const std::string& base, std::int64_t of, std::size_t j, std::size_t n) {
      const std::int64_t number = static_cast<std::int64_t>(j) * numbers + static_cast<std::int64_t>(n);
      return "[" + base + "+" + std::to_string(first + slots_ * (of * row + number * size)) + "]";
    };
    const auto put = [&](const std::string& who) {
      for (std::size_t j = 0; j < known.size(); ++j) {
        for (std::size_t n = 0; n < known[j].size(); ++n) {
          if (!is_said(j, n)) t_.line_if(who, "st.shared." + elements_.type(), place(own, 0, j, n), known[j][n]);
        }
      }
      t_.line("bar.sync", 0);
    };
    put("");
    for (std::int64_t half = sharers / 2; half > 0; half /= 2) {  // the first half adds what the second has
      const std::string adds = t_.let(Bank::predicate, "setp.lt.u32", sharer, half);
      const auto other = [&](std::size_t j, std::size_t n) {
        std::string number = t_.fresh(elements_.bank());
        t_.line_if(adds, "ld.shared." + elements_.type(), number, place(own, half, j, n));
        return number;
      };
      elements_.join(kind, known, all(other), adds);
      put(adds);
    }
    known = all([&](std::size_t j, std::size_t n) {
      return t_.let(elements_.bank(), "ld.shared." + elements_.type(), place(mine, 0, j, n));
    });
  }
  return known;
}

void Generator::meet_blocks() {
  const int parameters = kernel_.inputs + kernel_.outputs + static_cast<int>(kernel_.tables.size());
  const std::string work = pointer(parameters), counters = pointer(parameters + 1);
  // [parts][groups][numbers]
  std::vector<std::string> numbers;
  std::map<int, std::vector<State>> states;  // by node: of each element
  for (const auto& [i, known] : known_) {
    for (const Known& one : known) {
      numbers.insert(numbers.end(), one.begin(), one.end());
      states[i].push_back(begin(node(i).reduction, 1, true));
    }
  }
  const auto count = static_cast<int>(numbers.size());
  const std::int64_t size = static_cast<std::int64_t>(size_of(p_.compute)) * count;
  const int together = count % 4 == 0 ? 4 : count % 2 == 0 ? 2 : 1;
  kernel_.workspace = s_.parts * groups_ * size;
  kernel_.counters = kernel_.blocks * 4;
  const std::string part = t_.special("ctaid.y"), block = t_.special("ctaid.x");
  const std::string column = t_.advanced(work, group_, size), mine = t_.advanced(column, part, groups_ * size);
  for (std::string& number : numbers) number = elements_.element(p_.compute, number);
  elements_.store(p_.compute, mine, 0, numbers, together, size / count, storing());
  t_.line("membar.gl");
  t_.line("bar.sync", 0);
  const std::string waits = t_.fresh_label(), end = t_.fresh_label();
  const std::string first = "[memory+" + std::to_string(shared(4)) + "]", seen = t_.fresh(Bank::b32);
  t_.line_if(t_.let(Bank::predicate, "setp.ne.u32", tid_, 0), "bra", waits);
  t_.line("atom.global.inc.u32", seen, "[" + t_.advanced(counters, block, 4) + "]", s_.parts - 1);
  t_.line("st.shared.u32", first, seen);
  t_.place(waits);
  t_.line("bar.sync", 0);
  const std::string last = t_.let(Bank::b32, "ld.shared.u32", first);
  t_.line_if(t_.let(Bank::predicate, "setp.ne.u32", last, s_.parts - 1), "bra", end);
  t_.line("membar.gl");
  // A lane takes every so many-th part, and all of them meet as they did before.
  const std::int64_t rounds = detail::ceil_div(s_.parts, s_.lanes), under_way = std::min<std::int64_t>(rounds, 4);
  const std::string at = t_.let(Bank::b32, "mov.u32", lane_.empty() ? "0" : lane_);
  const std::string from = t_.advanced(column, at, groups_ * size);
  repeat(detail::ceil_div(rounds, under_way), [&] {
    std::vector<std::string> exist;
    std::vector<Words> found;
    for (std::int64_t j = 0; j < under_way; ++j) {
      const std::string which = t_.let(Bank::b32, "add.u32", at, j * s_.lanes);
      exist.push_back(t_.let(Bank::predicate, "setp.lt.u32", which, s_.parts));
      found.push_back(
          elements_.load(p_.compute, from, j * s_.lanes * groups_ * size, count, together, exist.back(), ".cg"));
    }
    for (std::size_t j = 0; j < found.size(); ++j) {
      int number = 0;
      for (const auto& [i, known] : known_) {
        for (std::size_t k = 0; k < known.size(); ++k) {
          Known other;
          for (std::size_t n = 0; n < known[k].size(); ++n)
            other.push_back(elements_.unpacked(p_.compute, found[j], number++));
          State& state = states[i][k];
          other.size() == 1 ? add(state, 0, other[0], exist[j])
                            : elements_.join(state.kind, state.known[0], other, exist[j]);
        }
      }
    }
    t_.line("add.u32", at, at, under_way * s_.lanes);
    t_.line("add.s64", from, from, under_way * s_.lanes * groups_ * size);
  });
  for (const auto& [i, of_elements] : states) {
    std::vector<Known> known;
    for (const State& state : of_elements) known.push_back(settled(state)[0]);
    keep(i, met(node(i).reduction, std::move(known)));
  }
  store_all();
  t_.place(end);
}

std::int64_t Generator::shared(std::int64_t bytes) {
  std::int64_t at = detail::round_up<std::int64_t>(shared_, 16);
  if (at + bytes > most_shared) {  // from the beginning again, when everybody is done with what is there
    t_.line("bar.sync", 0);
    at = 0;
  }
  shared_ = at + bytes;
  shared_bytes_ = std::max(shared_bytes_, shared_);
  return at;
}

}  // namespace lamina::cuda
