#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/cpu/lookup/lookup.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/lookup/box_overlap.h"

namespace lamina::cpu {
namespace {

using detail::OverlapBox;

/// A list that begins with its length: of nothing yet.
std::int64_t* emptied(Tensor& found) {
  std::fill_n(found.values<std::int64_t>().data(), found.numel(), std::int64_t{0});
  return found.values<std::int64_t>().data();
}

/// The score, negative, and the box: in the order in which they are taken.
using Scored = std::pair<float, std::int64_t>;

/// Which of two rows comes first, of NaN the largest: below 0, 0, above.
template <class T>
int compared(const T* a, const T* b, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) {
    if (a[i] < b[i] || (b[i] != b[i] && a[i] == a[i])) return -1;
    if (b[i] < a[i] || (a[i] != a[i] && b[i] == b[i])) return 1;
  }
  return 0;
}

template <class T>
void find_unique(const T* rows, std::int64_t width, std::int64_t count, bool sorted, std::int64_t* found,
                 std::int64_t room, std::int64_t* order) {
  std::int64_t *const first = found + 1, *const which = first + room, *const times = which + room;
  std::iota(order, order + count, std::int64_t{0});
  std::sort(order, order + count, [&](std::int64_t a, std::int64_t b) {
    const int result = compared(rows + a * width, rows + b * width, width);
    return result < 0 || (result == 0 && a < b);
  });
  for (std::int64_t i = 0; i < count; ++i) {
    if (i == 0 || compared(rows + order[i] * width, rows + order[i - 1] * width, width) != 0)
      first[found[0]++] = order[i];
    which[order[i]] = found[0] - 1;
    ++times[found[0] - 1];
  }
  if (sorted) return;
  std::int64_t next = 0;  // numbered anew, by where each is first
  for (std::int64_t i = 0; i < count; ++i) {
    if (first[which[i]] == i) order[which[i]] = next++;
  }
  std::fill_n(times, room, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t number = which[i] = order[which[i]];
    if (times[number]++ == 0) first[number] = i;
  }
}

void find_true(const Tensor& x, Tensor& found) {
  std::int64_t* const list = emptied(found);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    if (static_cast<const std::uint8_t*>(x.raw())[i] != 0 && ++list[0] < found.numel()) list[list[0]] = i;
  }
}

/// workspace: a Scored for each box of an image.
void suppress(const Tensor& boxes, const Tensor& scores, const Tensor& settings, bool centred, Tensor& found,
              void* workspace) {
  std::int64_t* const list = emptied(found);
  const auto set = settings.values<double>();
  const std::int64_t classes = scores.shape()[1], all = boxes.shape()[1];
  if (!(set[1] >= 0 && set[1] <= 1)) detail::fail_by({Fault::no_overlap, std::bit_cast<std::int64_t>(set[1])});
  const auto threshold = static_cast<float>(set[1]);
  auto* const candidates = static_cast<Scored*>(workspace);
  for (std::int64_t image = 0; image < boxes.shape()[0]; ++image) {
    const float* const of_image = static_cast<const float*>(boxes.raw()) + image * all * 4;
    for (std::int64_t c = 0; c < classes; ++c) {
      const float* const score = static_cast<const float*>(scores.raw()) + (image * classes + c) * all;
      std::int64_t left = 0, kept = 0;
      for (std::int64_t i = 0; i < all; ++i) {
        // -Inf as the least score: there is none.
        if (score[i] > static_cast<float>(set[2]) || (std::isinf(set[2]) && score[i] == set[2]))
          candidates[left++] = {-score[i], i};
      }
      std::sort(candidates, candidates + left);
      // Those that stay move to the front, over those that were looked at.
      for (std::int64_t i = 0; i < left && static_cast<double>(kept) < set[0]; ++i) {
        const Scored one = candidates[i];
        const OverlapBox box(of_image + 4 * one.second, centred);
        const bool hidden = std::any_of(candidates, candidates + kept, [&](const Scored& other) {
          return box.overlaps(OverlapBox(of_image + 4 * other.second, centred), threshold);
        });
        if (hidden) continue;
        candidates[kept++] = one;
        std::int64_t* const result = list + 1 + 3 * list[0]++;
        if (3 * list[0] >= found.numel()) continue;
        result[0] = image, result[1] = c, result[2] = one.second;
      }
    }
  }
}

/// workspace: a number for each row.
void find_unique(const Tensor& rows, const Tensor& count, bool sorted, Tensor& found, void* workspace) {
  const std::int64_t width = rows.shape()[1], room = found.numel() / 3, all = count.values<std::int64_t>()[0];
  std::int64_t *const list = emptied(found), *const order = static_cast<std::int64_t*>(workspace);
  if (rows.dtype() == DType::f64)
    return find_unique(rows.values<double>().data(), width, all, sorted, list, room, order);
  find_unique(rows.values<std::int64_t>().data(), width, all, sorted, list, room, order);
}

void count(const CountRule& rule, const Tensor& counts, Tensor& result) {
  Fault fault;
  const std::int64_t all = rule.apply(counts.values<std::int64_t>().data(), counts.numel(), fault);
  if (fault.kind != Fault::none) detail::fail_by(fault);
  result.values<std::int64_t>()[0] = all;
}

std::size_t workspace_of(const FindProblem& problem, const Preparation& p) {
  if (problem.kind == FindProblem::Kind::boxes) return sizeof(Scored) * static_cast<std::size_t>(p.input().shape[1]);
  const bool rows = problem.kind == FindProblem::Kind::unique;
  return rows ? sizeof(std::int64_t) * static_cast<std::size_t>(p.input().shape[0]) : 0;
}

}  // namespace

std::unique_ptr<Operator> prepare_find(const FindProblem& problem, const Preparation& p) {
  return tables::make_operator("one thread", {.workspace = workspace_of(problem, p)},
                               [problem](auto in, auto out, const Execution& execution) {
                                 void* const workspace = execution.workspace;
                                 switch (problem.kind) {
                                   case FindProblem::Kind::count: return count(problem.rule, in[0], out[0]);
                                   case FindProblem::Kind::places: return find_true(in[0], out[0]);
                                   case FindProblem::Kind::boxes:
                                     return suppress(in[0], in[1], in[2], problem.centred, out[0], workspace);
                                   case FindProblem::Kind::unique:
                                     return find_unique(in[0], in[1], problem.sorted, out[0], workspace);
                                 }
                               });
}

}  // namespace lamina::cpu
