// Puts operations that do not need each other side by side, so that a GPU can run them at the same time.

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

#include "lamina/compile/program.h"

namespace lamina::detail {
namespace {

class Gatherer {
 public:
  explicit Gatherer(Program& program)
      : program_(program),
        left_(std::make_move_iterator(program.operations.begin()), std::make_move_iterator(program.operations.end())),
        waits_for_(program.values.size(), 0) {
    for (const Operation& op : left_) count(op, 1);
  }

  void gather() {
    program_.operations.clear();
    while (!left_.empty()) {
      take_views();
      if (!left_.empty()) take_neighbours();
    }
  }

 private:
  using Operation = Program::Operation;

  /// How many operations stand side by side at most, and how many are looked at beyond the first one. More would
  /// compute results early, which then take memory for long.
  static constexpr std::size_t most = 8, reach = 16;

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  void count(const Operation& op, int writers) {
    waits_for_[index(op.output)] += writers;
    if (op.second_output >= 0) waits_for_[index(op.second_output)] += writers;
  }

  bool is_ready(const Operation& op) const {
    return std::ranges::all_of(op.inputs, [&](int input) { return waits_for_[index(input)] == 0; });
  }

  void take(std::size_t place, bool beside) {
    left_[place].beside = beside;
    program_.operations.push_back(std::move(left_[place]));
    left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(place));
  }

  /// Views of a value that is computed are computed too.
  void take_views() {
    for (std::size_t i = 0; i < std::min(left_.size(), reach);) {
      if (!left_[i].view || !is_ready(left_[i])) {
        ++i;
        continue;
      }
      count(left_[i], -1);
      take(i, false);
      i = 0;
    }
  }

  void take_neighbours() {
    const std::size_t first = program_.operations.size();
    for (std::size_t i = 0, seen = 0; i < left_.size() && seen < reach; ++seen) {
      if (program_.operations.size() - first == most) break;
      if (left_[i].view || !is_ready(left_[i])) {
        ++i;
      } else {
        take(i, program_.operations.size() > first);
      }
    }
    for (std::size_t i = first; i < program_.operations.size(); ++i) count(program_.operations[i], -1);
  }

  Program& program_;
  std::deque<Operation> left_;  // the first ones are taken out
  std::vector<int> waits_for_;  // by value: how many operations that write it are left
};

}  // namespace

void gather_neighbours(Program& program, const CompileOptions& options) {
  if (options.description->architecture < 90) return;
  Gatherer(program).gather();
}

}  // namespace lamina::detail
