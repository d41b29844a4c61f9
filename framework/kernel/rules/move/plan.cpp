#include "lamina/kernel/rules/move/plan.h"

#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "lamina/base/math.h"
#include "lamina/kernel/rules/move/layouts.h"
#include "lamina/tensor/visit.h"

namespace lamina::detail {
namespace {

/// Whether a table is but a stride, from offsets[0] on.
bool is_affine(const std::vector<std::int64_t>& offsets) {
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] < 0) return false;
    if (i > 1 && offsets[i] - offsets[i - 1] != offsets[1] - offsets[0]) return false;
  }
  return true;
}

/// The bytes of a number, cast as PointwiseProblem says.
std::uint64_t bits_of(double number, DType dtype) {
  const auto with = [](const auto& element) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &element, sizeof(element));
    return bits;
  };
  switch (dtype) {
    case DType::f32: return with(static_cast<float>(number));
    case DType::f64: return with(number);
    case DType::f16: return with(to_half(static_cast<float>(number)));
    case DType::bf16: return with(to_bfloat16(static_cast<float>(number)));
    case DType::boolean: return number != 0;
    default: break;
  }
  return visit(dtype, [&]<class T>(std::type_identity<T>) -> std::uint64_t {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
      if (number != number) return 0;
      if (number <= static_cast<double>(least)) return with(least);
      return with(number >= static_cast<double>(most) ? most : static_cast<T>(number));
    } else {
      fail("no bits are known of a number as ", dtype);
    }
  });
}

}  // namespace

MovePlan move_plan(const MoveProblem& problem, const Preparation& p) {
  MovePlan plan = {.fill = bits_of(problem.fill, p.input().format.dtype)};
  const MoveProblem in_order = in_memory_order(problem, p.input(), p.output()).value();
  for (MoveProblem::Axis axis : in_order.axes) {
    plan.count *= axis.extent;
    if (axis.extent == 0) continue;
    if (!axis.offsets.empty() && is_affine(axis.offsets)) {
      plan.base += axis.offsets[0];
      axis.stride = axis.extent > 1 ? axis.offsets[1] - axis.offsets[0] : 0;
      axis.offsets.clear();
    }
    if (axis.extent == 1) {
      plan.outside |= !axis.offsets.empty();  // what is left of a table of one says that it is outside
      continue;
    }
    if (!plan.axes.empty() && axis.offsets.empty()) {
      MoveProblem::Axis& outer = plan.axes.back();
      if (outer.offsets.empty() && outer.stride == axis.stride * axis.extent) {
        outer.extent *= axis.extent;
        outer.stride = axis.stride;
        continue;
      }
    }
    plan.axes.push_back(std::move(axis));
  }
  if (plan.axes.empty()) plan.axes.push_back({});
  return plan;
}

bool is_movable(const MoveProblem& problem, const Preparation& p) {
  if (p.inputs.size() != 1 || p.outputs.size() != 1) return false;
  if (p.input().format.dtype != p.output().format.dtype || p.input().quantization != p.output().quantization)
    return false;
  std::int64_t count = 1;
  for (const MoveProblem::Axis& axis : problem.axes) {
    if (!axis.offsets.empty() && static_cast<std::int64_t>(axis.offsets.size()) != axis.extent) return false;
    const auto product = checked_mul(count, axis.extent);
    if (!product) return false;
    count = *product;
  }
  return count == p.output().shape.numel() && in_memory_order(problem, p.input(), p.output()).has_value();
}

bool is_still(const MoveProblem& problem, const Preparation& p) {
  if (p.input().shape.numel() != p.output().shape.numel() || !is_movable(problem, p)) return false;
  const MovePlan plan = move_plan(problem, p);
  const MoveProblem::Axis& axis = plan.axes[0];
  return plan.axes.size() == 1 && plan.base == 0 && !plan.outside && axis.offsets.empty() &&
         (axis.stride == 1 || axis.extent == 1);
}

}  // namespace lamina::detail
