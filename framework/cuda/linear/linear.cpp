// The fully connected layers of a GPU: the table, and the kernels that others do the work of.

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/channels_last/channels_last.h"
#include "lamina/cuda/conv2d/mma/mma.h"
#include "lamina/cuda/conv2d/preference.h"
#include "lamina/cuda/linear/rows.h"
#include "lamina/cuda/linear/stream.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/cublas.h"
#include "lamina/cuda/short_finish.h"
#include "lamina/cuda/tensor_core/chain.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/linear_as_convolution.h"

namespace lamina::cuda {
namespace {

constexpr std::size_t alignment = 256;  // of cuBLAS's workspace; the caller's is aligned to 16 bytes only
constexpr std::size_t usual_gemm_workspace = 4u << 20;
constexpr std::size_t least_gemm_workspace = 16u << 10;

/// Terms that cuBLAS adds one after another at most, as in 5_im2col.cpp.
constexpr int product_depth = max_chain;

Constant upload(int device, const Tensor& values, DType type) {
  if (!values.defined()) return {};
  const Tensor host = values.to(type);
  return Constant(device, host.raw(), host.bytes());
}

LinearArguments arguments_of(const LinearProblem& problem, const Preparation& p) {
  return {.storage = storage_type(p.precision),
          .output_type = p.output().format.dtype,
          .rows = problem.rows,
          .in = problem.in,
          .out = problem.out,
          .finish = finish_of(problem.epilogue, p.output().format.dtype)};
}

/// Few rows: the weights stream once for every 8 of them. How a sum is cut depends on how many there are at once.
class Rows final : public Operator {
 public:
  Rows(const LinearProblem& problem, const Preparation& p)
      : device_(p.device.device.index),
        arguments_(arguments_of(problem, p)),
        at_once_(p.batch_invariant ? 1 : linear_rows_at_once),
        bias_(upload(device_, problem.bias, DType::f32)) {
    arguments_.packed = problem.rows == 1 && linear_stream_takes(problem, p);  // to share the copy with more rows
    // One row is all memory's time, and f16 keeps TF32's 11 bits in half the bytes.
    const auto scaled =
        arguments_.packed && p.precision == Precision::tf32 ? pack_scaled_linear(problem) : std::nullopt;
    if (scaled) {
      weight_ = Constant(device_, scaled->weights.raw(), scaled->weights.bytes());
      scales_ = Constant(device_, scaled->scales.data(), scaled->scales.size() * sizeof(float));
    } else {
      weight_ = arguments_.packed ? upload(device_, pack_linear(problem, p.precision), DType::u8)
                                  : upload(device_, problem.weight, arguments_.storage);
    }
    arguments_.weight = weight_.data();
    arguments_.scales = scales_.as<float>();
    arguments_.bias = bias_.as<float>();
  }

  std::string description() const override {
    const LinearArguments& a = arguments_;
    const int outputs = linear_block_outputs(std::min<std::int64_t>(a.rows, at_once_), a.out);
    return detail::concat("rows: weights streamed in ", name(a.scales != nullptr ? DType::f16 : a.storage),
                          a.scales != nullptr ? ", scaled" : "", ", a block for ", outputs,
                          outputs == 1 ? " output" : " outputs");
  }
  std::size_t parameter_bytes() const override { return weight_.bytes() + bias_.bytes() + scales_.bytes(); }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    const DeviceGuard guard(device_);
    const std::size_t input_row = static_cast<std::size_t>(arguments_.in) * size_of(arguments_.storage),
                      output_row = static_cast<std::size_t>(arguments_.out) * size_of(arguments_.output_type);
    for (std::int64_t row = 0; row < arguments_.rows; row += at_once_) {
      LinearArguments part = arguments_;
      part.input = static_cast<const std::byte*>(inputs[0].raw()) + static_cast<std::size_t>(row) * input_row;
      part.output = static_cast<std::byte*>(outputs[0].raw()) + static_cast<std::size_t>(row) * output_row;
      part.rows = std::min<std::int64_t>(at_once_, arguments_.rows - row);
      linear_few_rows(part, execution.stream);
    }
  }

 private:
  int device_;
  LinearArguments arguments_;
  std::int64_t at_once_;  // rows of a launch
  Constant weight_;       // [out, in]
  Constant bias_;         // [out]
  Constant scales_;       // [out] of weights in scaled f16, or nothing
};

/// Rows up to which Rows is the fastest, by measurement (docs/inside/plans.md): on Hopper `stream` takes over early.
/// Elsewhere 16-bit operands have to be converted, and four rows of them are as much work as eight of f32.
bool rows_pay(const LinearProblem& problem, const Preparation& p) {
  if (problem.in > linear_max_terms || p.batch_invariant) return false;
  if (!is_short(problem.epilogue, p.output().format.dtype)) return false;
  if (linear_stream_takes(problem, p)) return problem.rows == 1;
  return problem.rows <= (storage_type(p.precision) == DType::f32 ? linear_rows_at_once : 4);
}

bool rows_take(const LinearProblem& problem, const Preparation& p) {
  return is_short(problem.epilogue, p.output().format.dtype) && !problem.epilogue.pool && linear_formats_fit(p) &&
         problem.in <= linear_max_terms;
}

/// Many rows: products by cuBLAS. In fp32 they are cut along `in` as the precision contract needs, see product_depth.
class Product final : public Operator {
 public:
  Product(const LinearProblem& problem, const Preparation& p)
      : device_(p.device.device.index),
        precision_(p.precision),
        arguments_(arguments_of(problem, p)),
        depth_(arguments_.storage == DType::f32 ? product_depth : problem.in),
        gemm_bytes_(std::clamp(detail::round_up(p.workspace_limit / 16, alignment), least_gemm_workspace,
                               usual_gemm_workspace)),
        cublas_(Cublas::on_device(device_)),
        weight_(upload(device_, problem.weight, arguments_.storage)),
        bias_(upload(device_, problem.bias, DType::f32)) {
    arguments_.bias = bias_.as<float>();
  }

  std::string description() const override {
    const std::int64_t parts = detail::ceil_div(arguments_.in, depth_);
    return detail::concat("cuBLAS in ", name(precision_), ", the sum in ", parts, parts == 1 ? " part" : " parts");
  }
  std::size_t workspace_bytes() const override { return alignment + gemm_bytes_; }
  std::size_t parameter_bytes() const override { return weight_.bytes() + bias_.bytes(); }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    const DeviceGuard guard(device_);
    auto* aligned = reinterpret_cast<char*>(
        detail::round_up(reinterpret_cast<std::uintptr_t>(execution.workspace), std::uintptr_t{alignment}));
    LinearArguments a = arguments_;
    a.input = inputs[0].raw();
    a.output = outputs[0].raw();
    // Row-major output [rows, out] = input [rows, in] * weight' is, column-major as cuBLAS reads memory,
    // output' [out, rows] = (weight' [in, out])' * input' [in, rows].
    for (int first = 0; first < a.in; first += depth_) {
      const std::size_t skipped = static_cast<std::size_t>(first) * size_of(a.storage);
      cublas_->gemm({.operands = a.storage,
                     .result = a.output_type,
                     .m = a.out,
                     .n = a.rows,
                     .k = std::min(depth_, a.in - first),
                     .transpose_a = true,
                     .a = weight_.as<std::byte>() + skipped,
                     .lda = a.in,
                     .b = static_cast<const std::byte*>(a.input) + skipped,
                     .ldb = a.in,
                     .beta = first == 0 ? 0.0f : 1.0f,
                     .c = a.output,
                     .ldc = a.out},
                    precision_, aligned, gemm_bytes_, execution.stream);
    }
    if (a.bias != nullptr || a.finish.steps > 0) linear_epilogue(a, execution.stream);
  }

 private:
  int device_;
  Precision precision_;
  LinearArguments arguments_;
  int depth_;  // terms of one product
  std::size_t gemm_bytes_;
  std::shared_ptr<Cublas> cublas_;
  Constant weight_;  // [out, in]
  Constant bias_;    // [out]
};

bool product_takes(const LinearProblem& problem, const Preparation& p) {
  // Which of its kernels cuBLAS takes, and how that adds, follows the number of rows.
  if (!problem.epilogue.is_simple() || !linear_formats_fit(p) || p.batch_invariant) return false;
  // Whether the library is there is no property of the device; it is looked for when nothing else pays.
  try {
    (void)Cublas::on_device(p.device.device.index);
    return true;
  } catch (const Error&) {
    return false;  // a network must not need a library that only its last layers use
  }
}

template <bool (*takes)(const ConvProblem&, const Preparation&), Layout layout>
bool convolution_takes(const LinearProblem& problem, const Preparation& p) {
  const detail::LinearAsConvolution convolution(problem, p, layout);
  return linear_formats_fit(p) && takes(convolution.problem, convolution.preparation);
}

template <std::unique_ptr<Operator> (*prepare)(const ConvProblem&, const Preparation&), Layout layout>
std::unique_ptr<Operator> prepare_convolution(const LinearProblem& problem, const Preparation& p) {
  const detail::LinearAsConvolution convolution(problem, p, layout);
  return prepare(convolution.problem, convolution.preparation);
}

template <class O>
std::unique_ptr<Operator> prepare(const LinearProblem& problem, const Preparation& p) {
  return std::make_unique<O>(problem, p);
}

/// Where no bit may depend on the number of rows, the convolutions have all of them: each of the others adds in an
/// order of its own, and takes few rows only. `rows` is left what no convolution takes.
bool many_rows(const LinearProblem& problem, const Preparation& p) { return !rows_pay(problem, p); }

/// A tile of channels_last is 64 filters of steps of 128 bytes; what is much narrower, as a mixture of heads, is not
/// worth it.
bool narrow(const LinearProblem& problem, const Preparation& p) {
  constexpr int few = 16;
  return problem.in <= few && problem.out <= few && many_rows(problem, p);
}

constexpr Layout nhwc = Layout::nhwc;

/// Where rows of this shape pay and the convolution does.
template <bool (*rows)(const LinearProblem&, const Preparation&), bool (*pays)(const ConvProblem&, const Preparation&)>
bool convolution_pays(const LinearProblem& problem, const Preparation& p) {
  const detail::LinearAsConvolution convolution(problem, p, nhwc);
  return rows(problem, p) && pays(convolution.problem, convolution.preparation);
}

constexpr Kernel<LinearProblem> table[] = {
    {"stream", linear_stream_takes, prepare_linear_stream, many_rows},
    {"mma", convolution_takes<mma::resident::takes, nhwc>, prepare_convolution<mma::resident::prepare, nhwc>,
     convolution_pays<narrow, preference::mma>},
    {"channels_last", convolution_takes<channels_last::takes, nhwc>, prepare_convolution<channels_last::prepare, nhwc>,
     many_rows},
    {"implicit_gemm", convolution_takes<mma::gathered::takes, nhwc>, prepare_convolution<mma::gathered::prepare, nhwc>,
     convolution_pays<many_rows, preference::implicit_gemm>},
    {"rows", rows_take, prepare<Rows>, rows_pay},
    {"cublas", product_takes, prepare<Product>, many_rows},
    {"int8", detail::is_eight_bits, detail::prepare_by_convolution, nullptr, false, false, false, true}};

}  // namespace
}  // namespace lamina::cuda

namespace lamina {

template <>
std::span<const Kernel<LinearProblem>> Kernels<LinearProblem>::cuda() {
  return cuda::table;
}

}  // namespace lamina
