#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "lamina/base/error.h"
#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"
#include "lamina/kernel/rules/features.h"

/// The one dispatch. A kernel is a name, two questions and an answer; each device has a table of them for each problem.
namespace lamina {

/// One way to solve a kind of problem on a kind of device. Whatever it takes, it is right on.
template <class Problem>
struct Kernel {
  std::string_view name;  ///< what --algorithm, `inspect` and errors call it
  /// Whether it solves this problem, in these formats, on this device: right or wrong, nothing about speed, and nothing
  /// about what was asked for. Cheap: a Plan asks for every combination of formats before it settles on one. Looks at
  /// nothing but its arguments.
  bool (*takes)(const Problem& problem, const Preparation& preparation);
  /// Packs the weights and puts them where they are needed. Throws Error if memory runs out.
  std::unique_ptr<Operator> (*prepare)(const Problem& problem, const Preparation& preparation);
  /// Of what it takes, whether it is also the fastest where the rows above it are not, or worth it at all where one
  /// operation takes the place of several; null: always.
  bool (*pays)(const Problem& problem, const Preparation& preparation) = nullptr;
  Features reads = 0;  ///< what of problems and Views it knows of, beside what every kernel does
  /// Its output may lie where the operand does that the epilogue's chain begins with by adding it.
  bool over_residual = false;

  bool solves(const Problem& problem, const Preparation& preparation) const {
    return (features(problem, preparation) & ~reads) == 0 && takes(problem, preparation);
  }
};

/// The tables, the fastest kernel first. Each is defined once, in framework/cpu and in framework/cuda; a build without
/// CUDA has empty ones.
template <class Problem>
struct Kernels {
  static std::span<const Kernel<Problem>> cpu();
  static std::span<const Kernel<Problem>> cuda();
};

template <class Problem>
std::span<const Kernel<Problem>> kernels(DeviceType device) {
  return device == DeviceType::cuda ? Kernels<Problem>::cuda() : Kernels<Problem>::cpu();
}

/// The kernel that a convolution's kernel which is gone became part of; empty if there is none of that name.
LAMINA_API std::string_view successor_of(std::string_view gone);

/// The name of the kernel that was asked for; empty: the rule decides. What has convolutions in it obeys, too.
template <class Problem>
std::string_view asked_for(const Preparation& preparation) {
  constexpr bool obeys = requires { Problem::of_convolutions; };
  return obeys ? preparation.algorithm : std::string_view();
}

/// Whether that kernel solves the problem and no other was asked for.
template <class Problem>
bool may_run(const Kernel<Problem>& kernel, const Problem& problem, const Preparation& preparation) {
  const std::string_view asked = asked_for<Problem>(preparation);
  return (asked.empty() || kernel.name == asked) && kernel.solves(problem, preparation);
}

/// The first kernel that takes the problem and pays; null if none does. That of a single convolution need not pay if it
/// was asked for. A Plan puts one operation in the place of several, and settles on formats, for nothing less.
template <class Problem>
const Kernel<Problem>* paying_kernel(const Problem& problem, const Preparation& preparation) {
  const bool asked = std::is_same_v<Problem, ConvProblem> && !preparation.algorithm.empty();
  for (const Kernel<Problem>& kernel : kernels<Problem>(preparation.device.device.type)) {
    if (!may_run(kernel, problem, preparation)) continue;
    if (asked || kernel.pays == nullptr || kernel.pays(problem, preparation)) return &kernel;
  }
  return nullptr;
}

/// The same or, where none pays, the first that takes the problem; null if none does.
template <class Problem>
const Kernel<Problem>* find_kernel(const Problem& problem, const Preparation& preparation) {
  if (const Kernel<Problem>* paying = paying_kernel(problem, preparation)) return paying;
  for (const Kernel<Problem>& kernel : kernels<Problem>(preparation.device.device.type)) {
    if (may_run(kernel, problem, preparation)) return &kernel;
  }
  return nullptr;
}

namespace detail {
/// Throws the Error that says what was asked for; `others`: the kernels that would take it.
[[noreturn]] void no_kernel(std::string_view problem, std::string_view asked, const std::string& others,
                            const Preparation& preparation);
}  // namespace detail

/// The same; throws Error naming what was asked for, and which kernels would take it, if none does.
template <class Problem>
const Kernel<Problem>& choose(const Problem& problem, const Preparation& preparation) {
  if (const Kernel<Problem>* kernel = find_kernel(problem, preparation)) return *kernel;
  std::string others;
  for (const Kernel<Problem>& kernel : kernels<Problem>(preparation.device.device.type)) {
    if (kernel.solves(problem, preparation)) others += (others.empty() ? "" : ", ") + std::string(kernel.name);
  }
  detail::no_kernel(Problem::what, asked_for<Problem>(preparation), others, preparation);
}

}  // namespace lamina
