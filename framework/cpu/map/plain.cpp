// A Map, node by node. What is computed at once are the points of a block: all of the reduced axes, and up to a few
// hundred of the last kept one, [reduced][kept], so that functions are applied to arrays.

#include "lamina/cpu/map/plain.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "lamina/base/error.h"
#include "lamina/cpu/array/blocks.h"
#include "lamina/cpu/array/pointwise.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t most_points = 256;  // of the last kept axis in a block

std::int64_t along(const MapAxes& strides, const MapAxes& at) {
  std::int64_t sum = 0;
  for (std::size_t a = 0; a < strides.size(); ++a) sum += strides[a] * at[a];
  return sum;
}

/// The element's place, or -1 where the point is outside.
std::int64_t place(const MapView& view, const MapAxes& at) {
  std::int64_t result = view.offset + along(view.strides, at);
  for (const MapView::Guard& guard : view.guards) {
    const std::int64_t coordinate = guard.offset + along(guard.strides, at);
    if (coordinate < 0 || coordinate >= guard.extent) return -1;
  }
  for (const MapView::Table& table : view.tables) {
    const std::int64_t entry = (*table.entries)[static_cast<std::size_t>(table.offset + along(table.strides, at))];
    if (entry < 0) return -1;
    result += entry;
  }
  return result;
}

template <class T>
T joined(const ApplyKernel& kernel, MapReduction reduction, T sum, T x) {
  constexpr Pointwise functions[] = {Pointwise::add, Pointwise::mul, Pointwise::max, Pointwise::min};
  T result{};
  apply<T>(kernel, functions[static_cast<std::size_t>(reduction)], {&sum, &x, &x}, &result, 1);
  return result;
}

template <class T>
class Plain {
 public:
  Plain(const MapProblem& problem, std::span<const void* const> inputs, std::span<void* const> outputs)
      : problem_(problem), inputs_(inputs), outputs_(outputs), values_(problem.nodes.size()) {
    for (std::size_t a = 0; a < problem.extents.size(); ++a) (problem.reduces(a) ? reduced_ : kept_).push_back(a);
    if (!kept_.empty()) last_ = kept_.back(), kept_.pop_back();
  }

  void run() {
    MapAxes at(problem_.extents.size());
    const std::int64_t extent = last_ == none ? 1 : problem_.extents[last_];
    for (const std::int64_t e : problem_.extents) {
      if (e == 0) return;
    }
    do {
      for (first_ = 0; first_ < extent; first_ += points_) {
        points_ = std::min(extent - first_, most_points);
        block(at);
      }
    } while (next(kept_, at));
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};

  /// Counts up some of a point's coordinates; false behind the last.
  bool next(const std::vector<std::size_t>& axes, MapAxes& at) const {
    for (std::size_t i = axes.size(); i-- > 0;) {
      if (++at[axes[i]] < problem_.extents[axes[i]]) return true;
      at[axes[i]] = 0;
    }
    return false;
  }

  /// Calls each(index, point) for the points of the block.
  template <class F>
  void each_point(MapAxes& at, F&& each) {
    std::size_t index = 0;
    do {
      for (std::int64_t p = 0; p < points_; ++p) {
        if (last_ != none) at[last_] = first_ + p;
        each(index++, at);
      }
    } while (next(reduced_, at));
  }

  void block(MapAxes& at) {
    std::size_t count = static_cast<std::size_t>(points_);
    for (const std::size_t a : reduced_) count *= static_cast<std::size_t>(problem_.extents[a]);
    for (std::size_t i = 0; i < problem_.nodes.size(); ++i) compute(problem_.nodes[i], values_[i], count, at);
    for (const MapProblem::Store& store : problem_.stores) {
      const std::vector<T>& values = values_[static_cast<std::size_t>(store.node)];
      const auto& view = store.view;
      each_point(at, [&](std::size_t index, const MapAxes& point) {
        auto* to = static_cast<std::byte*>(outputs_[static_cast<std::size_t>(view.array)]);
        cpu::store(view.dtype, &values[index], to + place(view, point) * static_cast<std::int64_t>(size_of(view.dtype)),
                   1);
      });
    }
  }

  void compute(const MapNode& node, std::vector<T>& values, std::size_t count, MapAxes& at) {
    values.resize(count);
    const auto operand = [&](int i) {
      const int from = node.from[static_cast<std::size_t>(i)];
      return values_[static_cast<std::size_t>(from < 0 ? node.from[0] : from)].data();
    };
    switch (node.kind) {
      case MapNode::Kind::load: {
        const MapView& view = problem_.loads[static_cast<std::size_t>(node.view)];
        const auto* from = static_cast<const std::byte*>(inputs_[static_cast<std::size_t>(view.array)]);
        each_point(at, [&](std::size_t index, const MapAxes& point) {
          const std::int64_t element = place(view, point);
          if (element < 0) {
            values[index] = load_one<T>(view.fill);
          } else {
            cpu::load(view.dtype, from + element * static_cast<std::int64_t>(size_of(view.dtype)), &values[index], 1);
          }
        });
        return;
      }
      case MapNode::Kind::number: std::fill(values.begin(), values.end(), load_one<T>(node.number)); return;
      case MapNode::Kind::function:
        apply<T>(kernel_, node.function, {operand(0), operand(1), operand(2)}, values.data(),
                 static_cast<std::int64_t>(count));
        return;
      case MapNode::Kind::reduce: {
        const T* from = operand(0);
        const auto points = static_cast<std::size_t>(points_);
        using Sum = std::conditional_t<std::is_same_v<T, float>, double, T>;
        for (std::size_t p = 0; p < points; ++p) {
          auto sum = static_cast<Sum>(from[p]);
          for (std::size_t i = p + points; i < count; i += points)
            sum = joined(kernel_, node.reduction, sum, static_cast<Sum>(from[i]));
          for (std::size_t i = p; i < count; i += points) values[i] = static_cast<T>(sum);
        }
        return;
      }
    }
  }

  const MapProblem& problem_;
  std::span<const void* const> inputs_;
  std::span<void* const> outputs_;
  const ApplyKernel& kernel_ = apply_kernels().back();
  std::vector<std::size_t> kept_, reduced_;  // axes; of the kept ones all but the last
  std::size_t last_ = none;
  std::int64_t first_ = 0, points_ = 1;
  std::vector<std::vector<T>> values_;
};

}  // namespace

void evaluate(const MapProblem& problem, std::span<const void* const> inputs, std::span<void* const> outputs) {
  switch (problem.compute) {
    case DType::f32: return Plain<float>(problem, inputs, outputs).run();
    case DType::f64: return Plain<double>(problem, inputs, outputs).run();
    case DType::i64: return Plain<std::int64_t>(problem, inputs, outputs).run();
    case DType::u32:
    case DType::u64: return Plain<std::uint64_t>(problem, inputs, outputs).run();
    default: detail::fail("a map computes in f32, f64, i64 or u64, not in ", problem.compute);
  }
}

}  // namespace lamina::cpu
