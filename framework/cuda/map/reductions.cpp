// Part of the generator of Map kernels, see generator.h: what threads and blocks know of a sum, and how they meet.

#include "lamina/cuda/map/generator.h"

#include <algorithm>

#include "lamina/base/math.h"

namespace lamina::cuda {

constexpr std::int64_t most_plain = 16;  // numbers that are added up without compensation

Generator::State Generator::begin(MapReduction kind, std::size_t count, bool compensated) {
  State state{kind, {}, {}};
  for (std::size_t j = 0; j < count; ++j) {
    state.sums.push_back(t_.let(elements_.bank(), "mov." + elements_.type(), elements_.start(kind)));
    if (compensated && kind == MapReduction::sum && is_float(p_.compute)) {
      state.lost.push_back(t_.let(elements_.bank(), "mov." + elements_.type(), elements_.number(0)));
    }
  }
  return state;
}

void Generator::add(State& state, std::size_t j, const std::string& x, const std::string& exists) {
  if (state.lost.empty()) return elements_.join(state.kind, state.sums[j], x, exists);
  elements_.add_compensated(state.sums[j], state.lost[j], x, exists);
}

std::vector<std::string> Generator::settled(State& state) {
  if (state.lost.empty()) return state.sums;
  std::vector<std::string> result;
  for (std::size_t j = 0; j < state.sums.size(); ++j) {
    result.push_back(t_.let(elements_.bank(), "sub.rn." + elements_.type(), state.sums[j], state.lost[j]));
  }
  return result;
}

std::string Generator::folded(MapReduction kind, const std::vector<std::string>& numbers) {
  if (numbers.size() == 1) return numbers[0];
  State state = begin(kind, 1, true);
  for (const std::string& x : numbers) add(state, 0, x, "");
  return settled(state)[0];
}

void Generator::pass(const std::vector<int>& reductions) {
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
          add(states[r], j, elements_.in_register(value(operands[r], static_cast<int>(u), static_cast<int>(j))),
              pieces_[u].exists);
        }
      }
    }
  });
  for (std::size_t r = 0; r < operands.size(); ++r) meet(reductions[r], states[r]);
}

void Generator::meet(int i, State& state) {
  std::vector<std::string> sums = settled(state);
  if (neighbours_) sums = {folded(state.kind, sums)};
  sums = met(state.kind, std::move(sums));
  for (std::size_t j = 0; j < sums.size(); ++j) values_[{i, -1, along_element(i) ? static_cast<int>(j) : -1}] = sums[j];
}

std::vector<std::string> Generator::met(MapReduction kind, std::vector<std::string> sums) {
  for (std::string& sum : sums) {
    for (std::int64_t distance = neighbours_ ? std::min<std::int64_t>(s_.lanes, 32) / 2 : 0; distance > 0;
         distance /= 2)
      elements_.join(kind, sum, elements_.of_neighbour(sum, distance), "");
  }
  const std::int64_t sharers = neighbours_ ? s_.lanes / 32 : s_.lanes;
  if (sharers > 1) {
    // [sharers][elements][slots]
    const auto size = static_cast<std::int64_t>(size_of(p_.compute)),
               row = static_cast<std::int64_t>(sums.size()) * size;
    const std::int64_t first = shared(sharers * slots_ * row);
    const std::string memory = t_.let(Bank::b32, "mov.u32", "memory");
    const std::string mine = t_.let(Bank::b32, "mad.lo.u32", slot_, size, memory);
    const std::string sharer = neighbours_ ? t_.quotient(lane_, 32) : lane_;
    const std::string own = t_.let(Bank::b32, "mad.lo.u32", sharer, slots_ * row, mine);
    const auto place = [&](const std::string& base, std::int64_t of, std::size_t j) {
      return "[" + base + "+" + std::to_string(first + slots_ * (of * row + static_cast<std::int64_t>(j) * size)) + "]";
    };
    const auto put = [&](const std::string& who) {
      for (std::size_t j = 0; j < sums.size(); ++j)
        t_.line_if(who, "st.shared." + elements_.type(), place(own, 0, j), sums[j]);
      t_.line("bar.sync", 0);
    };
    put("");
    for (std::int64_t half = sharers / 2; half > 0; half /= 2) {  // the first half adds what the second has
      const std::string adds = t_.let(Bank::predicate, "setp.lt.u32", sharer, half);
      for (std::size_t j = 0; j < sums.size(); ++j) {
        const std::string other = t_.fresh(elements_.bank());
        t_.line_if(adds, "ld.shared." + elements_.type(), other, place(own, half, j));
        elements_.join(kind, sums[j], other, adds);
      }
      put(adds);
    }
    for (std::size_t j = 0; j < sums.size(); ++j)
      sums[j] = t_.let(elements_.bank(), "ld.shared." + elements_.type(), place(mine, 0, j));
  }
  return sums;
}

void Generator::meet_blocks() {
  const int parameters = kernel_.inputs + kernel_.outputs + static_cast<int>(kernel_.tables.size());
  const std::string work = pointer(parameters), counters = pointer(parameters + 1);
  // [parts][groups][numbers]
  std::vector<std::string*> numbers;
  std::vector<int> of;  // which node
  std::vector<State> states;
  for (auto& [key, number] : values_) {
    if (node(key[0]).kind != MapNode::Kind::reduce) continue;
    numbers.push_back(&number), of.push_back(key[0]);
    states.push_back(begin(node(key[0]).reduction, 1, true));
  }
  const auto count = static_cast<int>(numbers.size());
  const std::int64_t size = static_cast<std::int64_t>(size_of(p_.compute)) * count;
  const int together = count % 4 == 0 ? 4 : count % 2 == 0 ? 2 : 1;
  kernel_.workspace = s_.parts * groups_ * size;
  kernel_.counters = kernel_.blocks * 4;
  const std::string part = t_.special("ctaid.y"), block = t_.special("ctaid.x");
  const std::string column = t_.advanced(work, group_, size), mine = t_.advanced(column, part, groups_ * size);
  std::vector<std::string> known;
  for (const std::string* number : numbers) known.push_back(*number);
  elements_.store(p_.compute, mine, 0, known, together, size / count, storing());
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
      for (int i = 0; i < count; ++i)
        add(states[static_cast<std::size_t>(i)], 0, elements_.unpacked(p_.compute, found[j], i), exist[j]);
    }
    t_.line("add.u32", at, at, under_way * s_.lanes);
    t_.line("add.s64", from, from, under_way * s_.lanes * groups_ * size);
  });
  for (std::size_t i = 0; i < numbers.size();) {  // those of one node together
    std::vector<std::string> sums;
    for (std::size_t j = i; j < numbers.size() && of[j] == of[i]; ++j) sums.push_back(settled(states[j])[0]);
    for (const std::string& sum : met(states[i].kind, sums)) *numbers[i++] = sum;
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
