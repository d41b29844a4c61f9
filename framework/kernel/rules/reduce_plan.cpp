#include "lamina/kernel/rules/reduce_plan.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <type_traits>

#include "lamina/tensor/visit.h"

namespace lamina::detail {
namespace {

bool is_reduced(const ReduceProblem& problem, std::size_t dim) { return (problem.dims >> dim & 1u) != 0; }

template <class F>
double limit_of(DType dtype, double infinity, F f) {
  if (is_float(dtype)) return infinity;
  return visit(dtype, [&]<class T>(std::type_identity<T>) -> double {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<double>(f(T{}));
    } else {
      return infinity;
    }
  });
}

}  // namespace

ReducePlan reduce_plan(const ReduceProblem& problem, const Preparation& p) {
  const Shape& shape = p.input().shape;
  const Strides from = strides_of(p.input()), to = strides_of(p.output());
  const bool keeps_dims = p.output().shape.rank() == shape.rank();
  struct Dim {
    std::int64_t order;  // its stride where the order counts
    WalkAxis axis;
  };
  std::vector<Dim> kept, reduced;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
    const WalkAxis axis = {.extent = shape[static_cast<int>(dim)], .strides = {from[dim]}};
    if (is_reduced(problem, dim)) {
      reduced.push_back({from[dim], axis});
    } else {
      kept.push_back({to[keeps_dims ? dim : kept.size()], axis});
    }
  }
  const auto in_order = [](std::vector<Dim>& dims) {
    std::ranges::stable_sort(dims, std::greater<>(), &Dim::order);
    std::vector<WalkAxis> axes;
    for (Dim& dim : dims) axes.push_back(std::move(dim.axis));
    if (axes.empty()) axes.push_back({.extent = 1, .strides = {0}});
    return merged(std::move(axes));
  };
  ReducePlan plan;
  plan.kept = in_order(kept);
  plan.reduced = in_order(reduced);
  plan.outputs = count_of(plan.kept);
  plan.extent = count_of(plan.reduced);
  return plan;
}

bool is_reducible(const ReduceProblem& problem, const Preparation& p) {
  if (p.inputs.size() != 1 || p.outputs.size() != 1) return false;
  const Shape& from = p.input().shape;
  const Shape& to = p.output().shape;
  if (problem.dims >> from.rank() != 0) return false;
  const auto reduced = static_cast<std::size_t>(std::popcount(problem.dims));
  if (finds_place(problem.kind) && reduced != 1) return false;
  if (to.rank() != from.rank() && to.rank() != from.rank() - reduced) return false;
  int place = 0;
  for (std::size_t dim = 0; dim < from.rank(); ++dim) {
    const bool gone = is_reduced(problem, dim);
    if (gone && to.rank() != from.rank()) continue;
    if (to[place++] != (gone ? 1 : from[static_cast<int>(dim)])) return false;
  }
  return true;
}

DType reduction_type(Reduction kind, DType input) {
  if (is_float(input)) return DType::f64;
  if (kind == Reduction::l2 || kind == Reduction::log_sum || kind == Reduction::log_sum_exp) return DType::f64;
  return input == DType::u64 ? DType::u64 : DType::i64;
}

double least_of(DType dtype) {
  return limit_of(dtype, -std::numeric_limits<double>::infinity(),
                  []<class T>(T) { return std::numeric_limits<T>::min(); });
}
double max_of(DType dtype) {
  return limit_of(dtype, std::numeric_limits<double>::infinity(),
                  []<class T>(T) { return std::numeric_limits<T>::max(); });
}

}  // namespace lamina::detail
