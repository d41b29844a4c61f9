#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "lamina/compile/dataflow.h"

namespace lamina::detail {

/// The move of elements that lie `block` by `block` behind each other, where each block has `longer` instead; nothing
/// if an axis goes through more than one of them by steps that are no whole ones.
std::optional<MoveProblem> stepping_over(MoveProblem move, std::int64_t block, std::int64_t longer);

/// Which values of a Program would do better with channels up to a multiple of eight, the last of them nobody's.
class WiderChannels : protected Dataflow {
 protected:
  static constexpr std::int64_t together = 8, least = 64;  // filters, where moves alone read them

  using Dataflow::Dataflow;

  /// What gets more channels together.
  struct Widened {
    std::vector<int> values;
    std::vector<int> copied;  ///< read with them; what computes these gives no more channels, so that moves add them
  };

  /// What is widened with the result of a product; nothing unless that makes more products faster than copies, which
  /// who cannot read a slice makes. What moves alone read is: their slices begin where kernels like to read.
  std::optional<Widened> paying(int first);
  /// Whether that pays for the result of an operation; true while it is being found out.
  bool pays(int value);

  /// The number of the first operand that an operation reads channel by channel, as it does all behind it; nothing if
  /// it is not known to read any so.
  std::optional<std::size_t> channelwise(const Operation& op) const;
  /// Those that read a value otherwise, each once.
  std::set<int> others(int value) const;
  /// What moves a value's elements, if those can lie further apart.
  std::optional<MoveProblem> move_over(const Operation& op, int value, std::int64_t channels) const;

 private:
  /// What a change of a product's channels does to its kernel: tables have the fastest first.
  enum class Change { same, faster, slower };

  /// `value`: of `more` channels; what the product reads, in which it finds its own where they lie, or what it
  /// computes.
  Change change_of(const Operation& op, ConvProblem conv, int value, std::int64_t more);
  /// With the depthwise layer behind it, whose kernel takes any filters, and reads no slices.
  bool becomes_pair(const Operation& op, const ConvProblem& first) const;
  /// With that value; no values if one of them cannot be.
  Widened widened_with(int first) const;
  /// Whether an operation reads a value channel by channel, or otherwise.
  bool reads(const Operation& op, int value, bool by_channels) const;
  std::int64_t pixels(int value) const { return extent(value, 2) * extent(value, 3); }

  std::map<int, bool> pays_;
};

}  // namespace lamina::detail
