#pragma once

#include <cstdint>
#include <string_view>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/rules/host_device.h"

namespace lamina {

/// times / per of a count, which must be whole.
struct CountRule {
  std::int64_t times = 1, per = 1;
  std::int64_t expected = -1;  ///< what all the counts must be; -1: one number, the first
  std::int64_t most = -1;      ///< what they may be, from 0 on; -1: not looked at
  bool enough = false;         ///< the others may also be larger than the first

  /// What it says of counts; notes the first that is not as it must be.
  LAMINA_HOST_DEVICE std::int64_t apply(const std::int64_t* counts, std::int64_t number, Fault& fault) const {
    const std::int64_t wanted = expected >= 0 ? expected : counts[0], all = wanted * times;
    for (std::int64_t i = 0; i < number && fault.kind == Fault::none; ++i) {
      const std::int64_t count = counts[i];
      if (most >= 0 && (count < 0 || count > most)) {
        fault = {Fault::beyond_room, count, most};
      } else if (enough ? count < wanted : count != wanted) {
        fault = {enough ? Fault::too_few : Fault::not_equal, count, wanted};
      }
    }
    if (fault.kind == Fault::none && all % per != 0) fault = {Fault::no_multiple, all, per};
    return all / per;
  }
};

/// What only a run finds. All but `count` give a list of i64 that begins with how many there are, of which it holds
/// what it has room for, and that ends in zeros.
struct FindProblem {
  static constexpr std::string_view what = "find";
  enum class Kind {
    count,   ///< counts, i64 of rank 1; i64 [1]: what the rule says of them
    places,  ///< bool [N]: of those that are true
    /// NonMaxSuppression of boxes [B, N, 4] and scores [B, C, N], both f32, as ONNX has it; a score that is NaN is
    /// none. Input 2, f64 [3]: the most of a class, the overlap, the least score. (image, class, box) of each.
    boxes,
    /// Which of rows [N, W] of i64 or f64, the first input 1 of them, are there once or more: behind their number, each
    /// with room for two rows at least and for N, the place of each, which of these each row is, and how often each is
    /// there. In the order of their values, where NaN is the largest, or of their places.
    unique
  };
  Kind kind = Kind::count;
  CountRule rule = {};   ///< of counts
  bool centred = false;  ///< of boxes: they are given by their centres and sizes
  bool sorted = true;    ///< of unique rows
};

namespace detail {

/// Whether all is as that says.
bool is_found(const FindProblem& problem, const Preparation& p);

}  // namespace detail
}  // namespace lamina
