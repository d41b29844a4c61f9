// Channels of one value have one scale in eight bits: one that is a hundred times smaller than another keeps two bits
// of its eight. What computes a channel divides it by a power of two, and those who read it multiply by it: no answer
// changes, as what lies between, sums and pools and ReLUs, passes factors on. A Clip does for channels that stay below
// its bound, which may become as large as that; those that it cuts stay as they are.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lamina/ops/op.h"
#include "lamina/quantize/calibrate.h"

namespace lamina::detail {
namespace {

constexpr std::string_view passing[] = {
    "Add",  "AveragePool",         "Dropout", "Flatten",    "GlobalAveragePool", "Identity", "LeakyRelu",  "MaxPool",
    "Relu", "adaptive_avg_pool2d", "add",     "avg_pool2d", "dropout",           "flatten",  "max_pool2d", "relu"};
constexpr double worth_it = 4;  // of the largest factor to the smallest

/// The upper bound of a Clip whose lower one is 0; 0 of whatever else.
double bound_of(const Draft& draft, const Item& item) {
  if (item.module == nullptr || item.module->op() != "Clip" || item.inputs.size() != 3) return 0;
  const auto number = [&](int input) {
    const auto* const found = input < 0 ? nullptr : dynamic_cast<const Constant*>(draft.at(input).module.get());
    const bool one = found != nullptr && found->value().dtype() == DType::f32 && found->value().numel() == 1;
    return one ? static_cast<double>(found->value().values<float>()[0]) : -1.0;
  };
  return number(item.inputs[1]) == 0 ? std::max(0.0, number(item.inputs[2])) : 0;
}

bool passes(const Draft& draft, const Item& item) {
  if (bound_of(draft, item) > 0) return true;
  if (item.module == nullptr || item.product || std::ranges::find(passing, item.module->op()) == std::end(passing))
    return false;
  // What is added as a constant would have to be divided too.
  return (item.module->op() != "Add" && item.module->op() != "add") || item.role == Role::carrier;
}

class Equalizer {
 public:
  Equalizer(Draft& draft, const std::vector<Observed>& observed)
      : draft_(draft), observed_(observed), group_(draft.items.size()) {
    std::iota(group_.begin(), group_.end(), 0);
    for (std::size_t i = 0; i < draft.items.size(); ++i) {
      if (!passes(draft, draft.items[i])) continue;
      for (const int input : draft.items[i].inputs) {
        if (input >= 0 && channels(input) > 0) group_[root(input)] = static_cast<int>(root(static_cast<int>(i)));
      }
    }
  }

  std::size_t equalize() {
    std::vector<std::vector<int>> members(group_.size());
    for (std::size_t i = 0; i < group_.size(); ++i) members[root(static_cast<int>(i))].push_back(static_cast<int>(i));
    const std::vector<std::vector<int>> readers = draft_.readers();
    std::size_t count = 0;
    for (const std::vector<int>& group : members) {
      if (!group.empty() && is_closed(group, readers) && scale(group, readers)) ++count;
    }
    return count;
  }

 private:
  std::size_t root(int item) {
    while (group_[static_cast<std::size_t>(item)] != item) item = group_[static_cast<std::size_t>(item)];
    return static_cast<std::size_t>(item);
  }
  std::size_t channels(int item) const { return observed_[static_cast<std::size_t>(item)].most.size(); }
  static std::size_t inputs_of(const Product& p) { return p.in() * static_cast<std::size_t>(p.groups); }

  /// Products alone write it and read it, and all of it has the same channels.
  bool is_closed(const std::vector<int>& group, const std::vector<std::vector<int>>& readers) {
    const std::size_t count = channels(group[0]);
    return count > 1 && std::ranges::all_of(group, [&](int i) {
             const Item& item = draft_.at(i);
             if (channels(i) != count || (!item.product && !passes(draft_, item))) return false;
             if (item.product && item.product->out() != count) return false;
             const bool alone = item.product || std::ranges::all_of(item.inputs, [&](int input) {
                                  return input < 0 || draft_.at(input).is_constant() || root(input) == root(i);
                                });
             if (!alone) return false;
             if (std::ranges::find(draft_.outputs, i) != draft_.outputs.end()) return false;
             return std::ranges::all_of(readers[static_cast<std::size_t>(i)], [&](int reader) {
               const Item& other = draft_.at(reader);
               return other.product ? inputs_of(*other.product) == count : root(reader) == root(i);
             });
           });
  }

  /// `take` of each weight and the channel that it multiplies.
  template <class Take>
  static void each_weight(const Product& p, const Take& take) {
    const std::size_t row = p.in() * p.taps(), filters = p.out() / static_cast<std::size_t>(p.groups);
    for (std::size_t k = 0; k < p.out() * row; ++k) take(k, k / row / filters * p.in() + k % row / p.taps());
  }

  bool scale(const std::vector<int>& group, const std::vector<std::vector<int>>& readers) {
    const std::size_t count = channels(group[0]);
    std::vector<double> most(count, 0), weights(count, 0);
    bool mixes = false;  // somebody reads several channels into one
    double bound = std::numeric_limits<double>::infinity();
    for (const int i : group) {
      if (const double own = bound_of(draft_, draft_.at(i)); own > 0) bound = std::min(bound, own);
      // What a Clip reads is not what is stored.
      const bool is_cut = std::ranges::any_of(readers[static_cast<std::size_t>(i)],
                                              [&](int reader) { return bound_of(draft_, draft_.at(reader)) > 0; });
      for (std::size_t c = 0; c < count && !is_cut; ++c)
        most[c] = std::max(most[c], static_cast<double>(observed_[static_cast<std::size_t>(i)].most[c]));
      for (const int reader : readers[static_cast<std::size_t>(i)]) {
        if (!draft_.at(reader).product || draft_.at(reader).product->in() == 1) continue;
        const Product& p = *draft_.at(reader).product;
        std::vector<double> own(count, 0);
        each_weight(p, [&](std::size_t k, std::size_t c) {
          own[c] = std::max(own[c], std::abs(static_cast<double>(p.weight.values<float>()[k])));
        });
        const double largest = *std::ranges::max_element(own);
        for (std::size_t c = 0; c < count && largest > 0; ++c) weights[c] = std::max(weights[c], own[c] / largest);
        mixes = true;
      }
    }
    std::vector<int> powers(count, 0);
    double sum = 0, used = 0;
    const auto power = [&](std::size_t c) {
      return mixes ? (std::log2(most[c]) - std::log2(weights[c])) / 2 : std::log2(most[c]);
    };
    const auto counts = [&](std::size_t c) { return most[c] > 0x1p-60 && (!mixes || weights[c] > 0x1p-60); };
    for (std::size_t c = 0; c < count; ++c) {
      if (counts(c)) sum += power(c), ++used;
    }
    double top = -std::numeric_limits<double>::infinity();
    for (std::size_t c = 0; c < count; ++c) top = counts(c) ? std::max(top, power(c)) : top;
    for (std::size_t c = 0; c < count; ++c) {
      if (!counts(c)) continue;
      if (std::isinf(bound)) {
        powers[c] = static_cast<int>(std::nearbyint(power(c) - sum / used));
      } else {
        powers[c] = static_cast<int>(std::min(0.0, std::ceil(std::max(power(c) - top, std::log2(most[c] / bound)))));
      }
    }
    const auto [low, high] = std::ranges::minmax(powers);
    if (high - low < std::log2(worth_it)) return false;
    apply(group, readers, powers);
    return true;
  }

  void apply(const std::vector<int>& group, const std::vector<std::vector<int>>& readers,
             const std::vector<int>& powers) {
    std::vector<int> done;
    for (const int i : group) {
      if (draft_.at(i).product) {
        Product& p = *draft_.at(i).product;
        const std::size_t row = p.in() * p.taps();
        p.weight = p.weight.clone();
        if (p.bias.defined()) p.bias = p.bias.clone();
        for (std::size_t c = 0; c < p.out(); ++c) {
          for (float& w : p.weight.values<float>().subspan(c * row, row)) w = std::ldexp(w, -powers[c]);
          if (p.bias.defined()) p.bias.values<float>()[c] = std::ldexp(p.bias.values<float>()[c], -powers[c]);
        }
      }
      for (const int reader : readers[static_cast<std::size_t>(i)]) {
        if (!draft_.at(reader).product || std::ranges::find(done, reader) != done.end()) continue;
        done.push_back(reader);
        Product& p = *draft_.at(reader).product;
        p.weight = p.weight.clone();
        const std::span<float> values = p.weight.values<float>();
        each_weight(p, [&](std::size_t k, std::size_t c) { values[k] = std::ldexp(values[k], powers[c]); });
      }
    }
  }

  Draft& draft_;
  const std::vector<Observed>& observed_;
  std::vector<int> group_;  // by item: another of the same channels
};

}  // namespace

std::size_t equalize(Draft& draft, const std::vector<Observed>& observed) {
  return Equalizer(draft, observed).equalize();
}

std::vector<bool> computed_by_products(const Draft& draft) {
  std::vector<bool> result;
  for (const Item& item : draft.items) {
    const bool passed = passes(draft, item) && std::ranges::any_of(item.inputs, [&](int input) {
                          return input >= 0 && result[static_cast<std::size_t>(input)];
                        });
    result.push_back(item.product || passed);
  }
  return result;
}

}  // namespace lamina::detail
