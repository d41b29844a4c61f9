#pragma once

#include <cstring>
#include <limits>

#include "cuda/tables/rows.h"
#include "support/kernel_harness.h"
#include "support/problem_data.h"

namespace lamina::test {

/// A problem on operands; floats are tried in each type that a GPU keeps. The CPU's kernels, which have tests of their
/// own, say what should come of it.
template <class Problem>
struct Example {
  bool odd = false;
  Problem problem = {};
  std::vector<Tensor> inputs;  ///< f32 where they are floats
  Shape output = {};
  double spread = 1;                 ///< the magnitude of what is added up; 0: not a bit may differ
  std::optional<DType> result = {};  ///< the type of the output, where it is not input 0's
  std::vector<Layout> from = {Layout::nchw, Layout::nhwc}, to = from;  ///< of images
  std::vector<Quantization> codes = {};  ///< of the inputs and the output, where some of them are codes
};

/// A type of eight bits, what its codes stand for in three places, and any of them.
struct CodeCase {
  DType type;
  Quantization a, b, c;

  Tensor draw(const Shape& shape, unsigned seed) const { return random_codes(shape, type, seed); }
};
/// Sums of halves, of which many lie between two codes; scales that are divided by.
inline constexpr CodeCase code_cases[] = {{DType::u8, {0.04f, 100}, {0.013f, 3}, {0.031f, 20}},
                                          {DType::i8, {0.04f, -7}, {0.013f, 11}, {0.031f, -128}},
                                          {DType::u8, {0.5f, 128}, {0.5f, 128}, {1.0f, 128}},
                                          {DType::i8, {1e-20f, 0}, {3e-20f, 5}, {2e-20f, 0}}};

/// Its inputs with NaN and Inf in the first.
inline std::vector<Tensor> not_finite(std::vector<Tensor> inputs) {
  Tensor x = inputs[0].clone();
  const std::span<float> values = x.values<float>();
  values[0] = std::numeric_limits<float>::infinity();
  values[values.size() / 2] = std::numeric_limits<float>::quiet_NaN();
  values[values.size() - 1] = -std::numeric_limits<float>::infinity();
  inputs[0] = x;
  return inputs;
}

/// Floats as a type rounds them; what are none, or are of f64, stay.
inline std::vector<Tensor> in_type(const std::vector<Tensor>& inputs, DType type) {
  std::vector<Tensor> result;
  for (const Tensor& x : inputs) result.push_back(is_activation(x.dtype()) ? x.to(type) : x);
  return result;
}

/// Whether it was taken, and so run.
template <class Problem>
bool run_example(const Example<Problem>& e, DType type, const std::vector<Tensor>& inputs, const RunOptions& options,
                 const std::string& what, bool again) {
  const std::vector<Tensor> stored = in_type(inputs, type);
  const DType result = e.result.value_or(stored[0].dtype());
  const ProblemRun<Problem> run(e.problem, stored, e.output, result, Device::cuda(), options);
  if (!run.taken()) return false;
  const Tensor found = run.run();
  if (again) {
    EXPECT_EQ(std::memcmp(found.raw(), run.run().raw(), found.bytes()), 0) << what << ": other bits";
  }
  const bool pictures = stored[0].dtype() == DType::u8 && is_float(result);
  const bool codes = !e.codes.empty();
  const Tensor computed = run_problem(
      e.problem, in_type(stored, DType::f32), e.output, is_float(result) ? DType::f32 : result, Device::cpu(),
      {.inputs = std::vector(stored.size(), codes || pictures ? Layout::nhwc : Layout::nchw),
       .output = codes ? Layout::nhwc : Layout::nchw,
       .quantizations = e.codes});
  const Tensor wanted = e.spread == 0 ? computed.to(result) : computed;
  std::vector<Truth> truth;
  for (const double value : doubles(wanted)) {
    const double share = e.spread == 0 ? 0 : 8 * rounding(result) + 3e-6;
    truth.push_back({value, share * std::max(e.spread, std::abs(value))});
  }
  expect_near(found, truth, what);
  return true;
}

/// All examples that the row takes, in every type and layout; under compute-sanitizer each in one, in turn.
template <class Problem>
Taken try_examples(const std::vector<Example<Problem>>& examples, std::string_view kernel,
                   const DeviceDescription& device, bool run) {
  constexpr DType types[] = {DType::f32, DType::f16, DType::bf16};
  Taken taken;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Example<Problem>& e = examples[i];
    const bool floats = is_float(e.inputs[0].dtype()), images = e.inputs[0].shape().rank() == 4;
    const std::size_t froms = images ? e.from.size() : 1, tos = images ? e.to.size() : 1;
    const std::size_t ways = (floats ? std::size(types) : 1) * froms * tos;
    for (std::size_t turn = 0; turn < ways; ++turn) {
      const std::size_t way = (turn + i) % ways;
      const DType type = types[way / (froms * tos)];
      const Layout from = e.from[way % froms], to = e.to[way / froms % tos];
      const RunOptions options = {.inputs = std::vector<Layout>(e.inputs.size(), from),
                                  .output = to,
                                  .kernel = kernel,
                                  .quantizations = e.codes,
                                  .description = device};
      const std::string what = detail::concat(Problem::what, " by ", kernel, ", example ", i, ", ", type, ", ",
                                              name(from), " to ", name(to));
      if (!run) {
        const std::vector<Tensor> stored = in_type(e.inputs, type);
        const DType result = e.result.value_or(stored[0].dtype());
        const ProblemRun<Problem> asked(e.problem, stored, e.output, result, Device::cuda(), options);
        if (asked.taken()) ++(e.odd ? taken.odd : taken.regular);
        continue;
      }
      if (!run_example(e, type, e.inputs, options, what, !reduced())) continue;
      ++(e.odd ? taken.odd : taken.regular);
      if (reduced()) break;
      if (floats) run_example(e, type, not_finite(e.inputs), options, what + ", NaN and Inf", false);
      if (testing::Test::HasFailure()) return taken;
    }
  }
  return taken;
}

/// The rows of a table, on what `examples()` gives.
template <class Problem, std::vector<Example<Problem>> (*examples)()>
void add_example_rows(std::vector<TableRow>& rows) {
  add_rows<Problem>(rows, [](std::string_view kernel, const DeviceDescription& device, bool run) {
    return try_examples(examples(), kernel, device, run);
  });
}

}  // namespace lamina::test
