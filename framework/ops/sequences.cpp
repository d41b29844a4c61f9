// Sequences of tensors: lists of nodes, whose lengths are known once shapes are.

#include "lamina/ops/expansion.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

/// Operand i, a place among `count`, counted from the end if it is negative; `otherwise` if it is left out.
std::ptrdiff_t place(Expansion& e, int i, std::ptrdiff_t count, std::ptrdiff_t most, std::ptrdiff_t otherwise) {
  const double said = e.has(i) ? e.number(i) : static_cast<double>(otherwise);
  const double at = said < 0 ? said + static_cast<double>(count) : said;
  if (!(at >= 0 && at <= static_cast<double>(most))) e.refuse("there is no place ", said, " in a sequence of ", count);
  return static_cast<std::ptrdiff_t>(at);
}

int empty(Expansion& e) {
  e.attributes().integer("dtype", 1);
  return e.add_sequence({});
}

int construct(Expansion& e) { return e.add_sequence(e.all_inputs()); }

int at(Expansion& e) {
  const std::vector<int> all = e.sequence(0);
  return all[static_cast<std::size_t>(place(e, 1, std::ssize(all), std::ssize(all) - 1, 0))];
}

int insert(Expansion& e) {
  std::vector<int> all = e.sequence(0);
  all.insert(all.begin() + place(e, 2, std::ssize(all), std::ssize(all), std::ssize(all)), e.input(1));
  return e.add_sequence(std::move(all));
}

int erase(Expansion& e) {
  std::vector<int> all = e.sequence(0);
  all.erase(all.begin() + place(e, 1, std::ssize(all), std::ssize(all) - 1, std::ssize(all) - 1));
  return e.add_sequence(std::move(all));
}

int length(Expansion& e) { return e.scalar(static_cast<double>(e.sequence(0).size()), DType::i64); }

/// Parts of so many elements each, the last perhaps of fewer; or of one, without the axis unless `keepdims`.
int split(Expansion& e) {
  constexpr std::int64_t most = 65'536;
  const int x = e.input(0), axis = e.axis_of(e.attributes().integer("axis", 0), e.rank(x));
  const bool keep = e.attributes().boolean("keepdims", true) || e.has(1);
  const std::int64_t extent = e.shape(x)[axis];
  std::vector<std::int64_t> lengths = e.has(1) ? e.integers(1) : std::vector<std::int64_t>{1};
  if (!e.has(1) || e.rank(e.input(1)) == 0) {
    const std::int64_t each = lengths[0];
    if (each < 1 || extent / each > most) e.refuse("cannot split ", extent, " into parts of ", each);
    lengths.assign(static_cast<std::size_t>(extent / each), each);
    if (extent % each != 0) lengths.push_back(extent % each);
  }
  std::vector<int> parts;
  std::int64_t begin = 0;
  for (const std::int64_t each : lengths) {
    if (each < 0 || each > extent - begin) e.refuse("expected parts that make up ", extent, ", got one of ", each);
    parts.push_back(e.slice(x, axis, begin, begin + each));
    if (!keep) {
      std::vector<std::int64_t> left(e.shape(x).begin(), e.shape(x).end());
      left.erase(left.begin() + axis);
      parts.back() = e.reshape(parts.back(), Shape(left));
    }
    begin += each;
  }
  if (begin != extent) e.refuse("expected parts that make up ", extent, ", got ", begin);
  return e.add_sequence(std::move(parts));
}

int concat(Expansion& e) {
  std::vector<int> parts = e.sequence(0);
  if (!e.attributes().has("axis")) e.refuse("expected an axis");
  if (parts.empty()) e.refuse("there is nothing in the sequence, so its shape is not known");
  const bool new_axis = e.attributes().boolean("new_axis", false);
  const int axis = e.axis_of(e.attributes().integer("axis", 0), e.rank(parts[0]) + (new_axis ? 1 : 0));
  for (int& part : parts) {
    if (e.dtype(part) != e.dtype(parts[0])) e.refuse("expected parts of ", e.dtype(parts[0]), ", got ", e.dtype(part));
    std::vector<std::int64_t> extents(e.shape(part).begin(), e.shape(part).end());
    if (!new_axis) continue;
    if (std::ssize(extents) < axis) e.refuse("expected parts of rank ", e.rank(parts[0]), ", got ", e.shape(part));
    extents.insert(extents.begin() + axis, 1);
    part = e.reshape(part, Shape(extents));
  }
  return e.join(std::move(parts), axis);
}

/// Of graph/resolve.cpp, which binds it.
int loop(Expansion& e) { e.refuse("it is bound by no Loop"); }

constexpr OpRow sequence_rows[] = {{"ConcatFromSequence", concat},
                                   {"Loop", loop},
                                   {"LoopValue", loop},
                                   {"SequenceAt", at},
                                   {"SequenceConstruct", construct},
                                   {"SequenceEmpty", empty},
                                   {"SequenceErase", erase},
                                   {"SequenceInsert", insert},
                                   {"SequenceLength", length},
                                   {"SplitToSequence", split}};

}  // namespace

std::span<const OpRow> sequence_ops() { return sequence_rows; }

}  // namespace lamina::detail
