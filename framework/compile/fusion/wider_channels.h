#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "lamina/compile/dataflow.h"

namespace lamina::detail {

/// The same move where the operand, which consists of blocks of `block` elements, gets blocks of `longer` elements.
/// Nothing if an axis steps from block to block by distances that are no whole blocks.
std::optional<MoveProblem> stepping_over(MoveProblem move, std::int64_t block, std::int64_t longer);

/// Finds the values of a Program for which kernels are faster if the number of channels is rounded up to a multiple of
/// eight. Nobody reads the channels that are added.
class WiderChannels : protected Dataflow {
 protected:
  static constexpr std::int64_t together = 8, least = 64;  // least: filters of a product that only moves read

  using Dataflow::Dataflow;

  /// Values that must get more channels together, if any of them does.
  struct Widened {
    std::vector<int> values;
    std::vector<int> copied;  ///< read together with `values`, but computed by operations that cannot give more
                              ///< channels: moves add them
  };

  /// The values that are widened together with the result of a product. Nothing unless the faster products are worth
  /// more than the copies for readers that cannot read a slice. A result that only moves read is widened in any case:
  /// the slices that they take then begin at addresses that kernels can read fast.
  std::optional<Widened> paying(int first);
  /// Whether widening an operation's result pays. While that is being found out, the answer is true, so that values of
  /// one chain can count on each other.
  bool pays(int value);

  /// The number of the first operand that an operation reads channel by channel; it reads all operands behind that one
  /// in the same way. Nothing if it is not known to read any operand channel by channel.
  std::optional<std::size_t> channelwise(const Operation& op) const;
  /// The readers that do not read a value channel by channel, each once.
  std::set<int> others(int value) const;
  /// The move that `op` is, for a `value` that has `channels` channels; nothing if `op` is no move, or cannot step over
  /// the added channels.
  std::optional<MoveProblem> move_over(const Operation& op, int value, std::int64_t channels) const;

 private:
  /// What more channels do to the choice of a product's kernel. A table has the fastest kernel first.
  enum class Change { same, faster, slower };

  /// `value` gets `more` channels. It is the product's operand, of which the product then reads a slice, or its result.
  Change change_of(const Operation& op, ConvProblem conv, int value, std::int64_t more);
  /// Whether the product will be computed together with the depthwise layer behind it. That kernel takes any number of
  /// filters and reads no slices, so more channels gain nothing.
  bool becomes_pair(const Operation& op, const ConvProblem& first) const;
  /// The values that must be widened together with `first`; no values if one of them cannot be widened.
  Widened widened_with(int first) const;
  /// If `by_channels`, whether an operation reads a value channel by channel; else whether it reads it in another way.
  /// Both may be true, for different operands.
  bool reads(const Operation& op, int value, bool by_channels) const;
  std::int64_t pixels(int value) const { return extent(value, 2) * extent(value, 3); }

  std::map<int, bool> pays_;
};

}  // namespace lamina::detail
