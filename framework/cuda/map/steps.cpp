// Part of the generator of Map kernels, see generator.h: a thread's steps along what is reduced or repeated.

#include "lamina/cuda/map/generator.h"

#include "lamina/base/math.h"

namespace lamina::cuda {

std::vector<std::vector<int>> Generator::passes() const {
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

void Generator::set_pieces(const std::string& at) {
  pieces_.assign(static_cast<std::size_t>(s_.pieces), {});
  const std::int64_t all = s_.staged >= 0     ? groups_of(walk_[0]) * s_.tile
                           : s_.repeated >= 0 ? s_.steps * stride_
                                              : s_.steps * s_.lanes * s_.parts;
  for (std::int64_t u = 0; u < s_.pieces; ++u) {
    Piece& piece = pieces_[static_cast<std::size_t>(u)];
    Index index{at, u * stride_};
    if (all != share_ &&
        (s_.staged >= 0 || s_.pieces < s_.steps || s_.parts > 1 || all - share_ >= (s_.pieces - 1 - u) * stride_)) {
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

std::string Generator::scaled(const std::string& reg) {
  std::string& found = scaled_[reg];
  if (found.empty()) found = t_.let(Bank::b32, "mul.lo.u32", reg, s_.pack);
  return found;
}

std::string Generator::whole(const Index& index) {
  if (index.reg.empty()) return t_.let(Bank::b32, "mov.u32", index.number);
  return index.number == 0 ? index.reg : t_.let(Bank::b32, "add.u32", index.reg, index.number);
}

void Generator::forget() {
  std::erase_if(values_, [&](const auto& one) { return along_piece(one.first[0]); });
  std::erase_if(words_, [&](const auto& one) { return along_piece(one.first[0]); });
  places_.clear(), scaled_.clear();
}

void Generator::prepare(int i) {
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

void Generator::fetch_parameters() {
  const auto first = static_cast<std::size_t>(kernel_.inputs) - p_.parameters.size();
  const bool all_steps = !walk_.empty() && s_.pieces == s_.steps;
  if (all_steps) set_pieces(start_);
  for (int i = 0; i < static_cast<int>(p_.nodes.size()); ++i) {
    if (node(i).kind != MapNode::Kind::load || static_cast<std::size_t>(load_of(i).array) < first) continue;
    if (!along_piece(i)) {
      load(i, -1);
    } else if (all_steps) {
      for (int u = 0; u < static_cast<int>(s_.pieces); ++u) load(i, u);
    }
  }
}

void Generator::fetch(const std::vector<int>& wanted) {
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

}  // namespace lamina::cuda
