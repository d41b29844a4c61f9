#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/kernel/kernel.h"
#include "support/guarded_buffer.h"
#include "support/kernel_data.h"
#include "support/pointwise_reference.h"
#include "support/reference.h"

/// One convolution, or one fully connected layer (a 1x1 convolution of 1x1 images), on one kernel of the tables of a
/// GPU: between guards, against the double reference, under the contract of docs/inside/precision.md.
namespace lamina::test {

/// LAMINA_TEST_REDUCED=1: a part of the cases and no large ones, for runs under compute-sanitizer.
inline bool reduced() {
  const char* value = std::getenv("LAMINA_TEST_REDUCED");
  return value != nullptr && *value != '\0' && *value != '0';
}

inline constexpr Precision precisions[] = {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16};

inline constexpr Precision of_16_bits[] = {Precision::fp16, Precision::bf16};

/// What a kernel is asked for, besides the geometry.
struct KernelOptions {
  std::string_view kernel = {};  ///< its name; empty: the rule decides
  Precision precision = Precision::fp32;
  Format input = {}, output = {};
  bool relu = false;
  PointwiseChain chain = {};  ///< after the ReLU; an addition is of ConvData::residual
  std::optional<PoolGeometry> pool = {};
  std::size_t workspace_limit = std::size_t{256} << 20;
  Tuning tuning = {};
};

inline std::string describe(const ConvGeometry& g, const KernelOptions& o) {
  return detail::concat(o.kernel, ' ', name(o.precision), ", ", o.input, " to ", o.output, ", ", describe(g),
                        o.relu ? ", relu" : "", o.chain.empty() ? "" : ", chain of ",
                        o.chain.empty() ? std::string() : std::to_string(o.chain.size()), o.pool ? ", pooled" : "",
                        ", tile ", o.tuning.tile, ", splits ", o.tuning.splits, ", multicast ", o.tuning.multicast,
                        ", outputs ", o.tuning.outputs);
}

inline bool reads_residual(const PointwiseChain& chain) {
  return std::ranges::any_of(chain, [](const PointwiseStep& step) { return step.operand >= 0; });
}

/// The geometry and the options as the tables want them. `data`, if there is one, is copied.
template <class Problem = ConvProblem>
struct Task {
  Task(const ConvGeometry& g, const KernelOptions& o,
       const DeviceDescription& device = lamina::describe(Device::cuda()))
      : geometry(g), kernel(o.kernel) {
    Epilogue epilogue = {.chain = o.relu ? PointwiseChain{{Pointwise::relu}} : PointwiseChain{}, .pool = o.pool};
    epilogue.chain.insert(epilogue.chain.end(), o.chain.begin(), o.chain.end());
    View &input = views[0], &output = views[2];
    input.format = o.input, output.format = o.output;
    if constexpr (is_linear) {
      problem = {.rows = g.batch, .in = g.in_channels, .out = g.out_channels, .epilogue = epilogue};
      input.shape = {g.batch, g.in_channels}, output.shape = {g.batch, g.out_channels};
    } else {
      problem = {.geometry = g, .epilogue = epilogue};
      input.shape = {g.batch, g.in_channels, g.in_height, g.in_width};
      output.shape = {g.batch, g.out_channels, o.pool ? o.pool->out_height : g.out_height,
                      o.pool ? o.pool->out_width : g.out_width};
    }
    views[1] = output;
    preparation = {.inputs = {views, std::size_t{reads_residual(o.chain) ? 2u : 1u}},
                   .outputs = {&output, 1},
                   .device = device,
                   .precision = o.precision,
                   .algorithm = kernel,
                   .workspace_limit = o.workspace_limit,
                   .tuning = o.tuning};
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// Whether the kernel of that name, or any if none was named, would take it.
  bool taken() const { return find() != nullptr; }

  /// Throws Error if nothing takes it.
  std::unique_ptr<Operator> prepare(const ConvData& data, bool biased) {
    const ConvGeometry& g = geometry;
    const Shape filters = {g.out_channels, g.group_in_channels(), g.kernel_height, g.kernel_width};
    problem.weight = Tensor::from(data.w, is_linear ? Shape{g.out_channels, g.in_channels} : filters);
    if (biased) problem.bias = Tensor::from(data.b, {g.out_channels});
    const Kernel<Problem>* found = find();
    return (found != nullptr ? *found : choose(problem, preparation)).prepare(problem, preparation);
  }

  ConvGeometry geometry;
  std::string kernel;
  Problem problem;
  View views[3];  // of the input, a residual, the output
  Preparation preparation;

 private:
  static constexpr bool is_linear = std::is_same_v<Problem, LinearProblem>;

  /// `algorithm` names convolutions alone.
  const Kernel<Problem>* find() const {
    if (!is_linear || kernel.empty()) return find_kernel(problem, preparation);
    for (const Kernel<Problem>& row : kernels<Problem>(DeviceType::cuda)) {
      if (row.name == kernel) return row.solves(problem, preparation) ? &row : nullptr;
    }
    return nullptr;
  }
};

template <class Problem = ConvProblem>
bool takes(const ConvGeometry& g, const KernelOptions& o) {
  return Task<Problem>(g, o).taken();
}

/// An operator and how its operands lie in memory.
struct Prepared {
  std::unique_ptr<Operator> op;
  View input, output;

  std::size_t input_bytes() const { return detail::bytes_of(input.shape, input.format); }
  std::size_t output_bytes() const { return detail::bytes_of(output.shape, output.format); }

  /// On device memory.
  void enqueue(void* from, void* to, void* workspace, cuda::Stream stream, void* residual = nullptr) const {
    std::vector<Tensor> sources = {Tensor::borrow(from, input.shape, input.format.dtype, Device::cuda())};
    if (residual != nullptr) {
      sources.push_back(Tensor::borrow(residual, output.shape, output.format.dtype, Device::cuda()));
    }
    Tensor result = Tensor::borrow(to, output.shape, output.format.dtype, Device::cuda());
    op->run(sources, {&result, 1}, {.stream = stream, .workspace = workspace});
  }
};

/// The name that its description begins with.
inline std::string kernel_name(const Operator& op) {
  return op.description().substr(0, op.description().find_first_of(": "));
}

template <class Problem = ConvProblem>
Prepared prepare(const ConvGeometry& g, const KernelOptions& o, const ConvData& data, bool biased) {
  Task<Problem> task(g, o);
  auto op = task.prepare(data, biased);
  return {std::move(op), task.views[0], task.views[2]};
}

/// The output's bytes, of an input [N, C, H, W]. Output and workspace are poisoned, and nothing outside is written to.
/// residual [N, OC, OH, OW], where the chain adds one.
inline std::vector<unsigned char> run_bytes(const Prepared& kernel, const std::vector<float>& x,
                                            cuda::Stream stream = nullptr, const std::vector<float>& residual = {}) {
  SCOPED_TRACE(kernel.op->description());
  const GuardedBuffer input(to_bytes(x, kernel.input.shape, kernel.input.format));
  const GuardedBuffer output(kernel.output_bytes()), workspace(kernel.op->workspace_bytes());
  std::optional<GuardedBuffer> added;
  if (!residual.empty()) added.emplace(to_bytes(residual, kernel.output.shape, kernel.output.format));
  kernel.enqueue(input.data(), output.data(), workspace.data(), stream, added ? added->data() : nullptr);
  cuda::synchronize(0, stream);
  (void)input.read(), (void)workspace.read();
  return output.read();
}

template <class Problem = ConvProblem>
std::vector<unsigned char> run_bytes(const ConvGeometry& g, const KernelOptions& o, const ConvData& data, bool biased) {
  return run_bytes(prepare<Problem>(g, o, data, biased), data.x, nullptr, data.residual);
}

/// The output as [N, OC, OH, OW].
inline std::vector<float> run(const Prepared& kernel, const std::vector<float>& x, cuda::Stream stream = nullptr,
                              const std::vector<float>& residual = {}) {
  return to_values(run_bytes(kernel, x, stream, residual), kernel.output.shape, kernel.output.format);
}

template <class Problem = ConvProblem>
std::vector<float> run(const ConvGeometry& g, const KernelOptions& o, const ConvData& data, bool biased) {
  return run(prepare<Problem>(g, o, data, biased), data.x, nullptr, data.residual);
}

/// The truth about operands as the precision rounds them.
inline ConvReference reference_of(const ConvGeometry& g, Precision precision, const ConvData& data, bool biased) {
  const ConvData seen = rounded(data, precision);
  return reference_conv2d(g, seen.x.data(), seen.w.data(), biased ? data.b.data() : nullptr);
}

/// What the contract says of one output.
struct Expected {
  double value = 0, bound = 0;
  bool overflows = false;  ///< nothing: it may be beyond the largest number of its type
};

/// Of every output, the ReLU and the chain applied, the pooling not. No function has a slope of more than 1.2, and each
/// result is off by its own rounding to f32, the last by that to its type.
inline std::vector<Expected> expected_outputs(const ConvGeometry& g, const KernelOptions& o,
                                              const ConvReference& reference, const std::vector<float>& residual = {}) {
  std::vector<Expected> result;
  result.reserve(reference.value.size());
  for (std::size_t i = 0; i < reference.value.size(); ++i) {
    const double value = reference.value[i];
    Expected expected = {o.relu && value < 0 ? 0 : value, error_bound(g, o.precision, reference.scale[i])};
    for (const PointwiseStep& step : o.chain) {
      const double x = step.operand < 0 ? step.a : static_cast<double>(residual[i]);
      expected.value = lamina::test::reference(step.function, expected.value, x, step.b);
      const double unit = o.precision == Precision::fp16 ? 0x1p-11 : o.precision == Precision::bf16 ? 0x1p-8 : 0x1p-20;
      expected.bound = 1.2 * expected.bound + unit * (std::abs(expected.value) + std::abs(x)) + 1e-6;
    }
    result.push_back(expected);
  }
  return result;
}

/// Every output within its bound, NaN and Inf where the reference has the same. Reports the first that is not, and
/// returns the worst error as a share of its bound.
inline double expect_outputs(const std::vector<Expected>& expected, const std::vector<float>& actual,
                             const std::string& what) {
  EXPECT_EQ(actual.size(), expected.size()) << what;
  double worst = 0;
  for (std::size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    const auto [value, bound, overflows] = expected[i];
    if (overflows) continue;
    const auto got = static_cast<double>(actual[i]);
    const bool finite = std::isfinite(value);
    const double share = finite ? std::abs(got - value) / bound : 0;
    const bool good = finite              ? share <= 1
                      : std::isnan(value) ? std::isnan(got)
                                          : actual[i] == static_cast<float>(value);
    if (!good) {
      ADD_FAILURE() << what << ": output " << i << " is " << got << ", expected " << value << " within " << bound;
      return share;
    }
    worst = std::max(worst, share);
  }
  return worst;
}

/// Runs and compares with a reference that serves several runs.
template <class Problem = ConvProblem>
double expect_contract(const ConvGeometry& g, const KernelOptions& o, const ConvData& data, bool biased,
                       const ConvReference& reference) {
  ConvData seen = data;
  if (reads_residual(o.chain) && seen.residual.empty()) {
    seen.residual = draw(g.output_size(), Values::mixed, static_cast<unsigned>(data.x.size()));
    for (float& r : seen.residual) r = rounded(r, o.precision);
  }
  return expect_outputs(expected_outputs(g, o, reference, seen.residual), run<Problem>(g, o, seen, biased),
                        describe(g, o));
}

template <class Problem = ConvProblem>
double expect_contract(const ConvGeometry& g, const KernelOptions& o, const ConvData& data, bool biased) {
  return expect_contract<Problem>(g, o, data, biased, reference_of(g, o.precision, data, biased));
}

/// Skips where there is no GPU.
class OnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (detail::cuda_device_count() == 0) GTEST_SKIP() << detail::cuda_unavailable_reason();
  }
};

/// And where the GPU lacks mma.sync and cp.async as the kernels on tensor cores use them.
class OnAmpere : public OnCuda {
 protected:
  void SetUp() override {
    OnCuda::SetUp();
    if (IsSkipped()) return;
    if (lamina::describe(Device::cuda()).architecture < 80) GTEST_SKIP() << "needs compute capability 8.0";
  }
};

/// And where the GPU, or the build, lacks what the kernels of Hopper need.
class OnHopper : public OnCuda {
 protected:
  void SetUp() override {
    OnCuda::SetUp();
    if (IsSkipped()) return;
    if (!lamina::describe(Device::cuda()).wgmma) GTEST_SKIP() << "needs compute capability 9.0 and sm_90a code";
  }
};

}  // namespace lamina::test
