// The fully connected layers of a GPU: the table, and the kernels that others do the work of.

#include <algorithm>
#include <memory>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/channels_last/channels_last.h"
#include "lamina/cuda/conv2d/mma/mma.h"
#include "lamina/cuda/conv2d/preference.h"
#include "lamina/cuda/kernels.h"
#include "lamina/cuda/linear/kernels.h"
#include "lamina/cuda/map/map.h"
#include "lamina/cuda/runtime/cublas.h"
#include "lamina/cuda/runtime/launched.h"
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

/// Rows up to which `rows` is the fastest, by measurement (docs/inside/plans.md): on Hopper `stream` takes over early.
/// Elsewhere 16-bit operands have to be converted, and four rows of them are as much work as eight of f32.
bool rows_pay(const LinearProblem& problem, const Preparation& p) {
  if (problem.in > linear_max_terms || p.batch_invariant) return false;
  if (!is_short(problem.epilogue, p.output().format.dtype)) return false;
  if (linear_stream_takes(problem, p)) return problem.rows == 1;
  return problem.rows <= (storage_type(p.precision) == DType::f32 ? linear_rows_at_once : 4);
}

bool rows_take(const LinearProblem& problem, const Preparation& p) {
  return is_short(problem.epilogue, p.output().format.dtype) && linear_formats_fit(p) && problem.in <= linear_max_terms;
}

/// Many rows: products by cuBLAS. In fp32 they are cut along `in` as the precision contract needs, see product_depth.
std::unique_ptr<Operator> prepare_product(const LinearProblem& problem, const Preparation& p) {
  const DType operands = storage_type(p.precision), result = p.output().format.dtype;
  Constants constants(p.device.device.index);
  const auto* weight = static_cast<const std::byte*>(constants.add(problem.weight.to(operands)));  // [out, in]
  std::shared_ptr<const Operator> finish;  // of the bias and the activation, in place
  if (problem.bias.defined() || problem.epilogue.relu()) {
    const View sums = {.shape = {problem.rows, problem.out, 1, 1}, .format = p.output().format};  // channels: out
    Preparation in_place = p;
    in_place.inputs = in_place.outputs = {&sums, 1};
    const auto filled = [&](float x) {
      return Tensor::from(std::vector(static_cast<std::size_t>(problem.out), x), {problem.out});
    };
    const AffineProblem affine = {.scale = filled(1.0f),
                                  .shift = problem.bias.defined() ? problem.bias : filled(0.0f),
                                  .epilogue = problem.epilogue};
    finish = choose(affine, in_place).prepare(affine, in_place);
    finish->wait();  // since nobody else knows of it
  }
  const int depth = operands == DType::f32 ? product_depth : problem.in;  // terms of one product
  const std::size_t gemm_bytes =
      std::clamp(detail::round_up(p.workspace_limit / 16, alignment), least_gemm_workspace, usual_gemm_workspace);
  const int parts = detail::ceil_div(problem.in, depth);
  return make_on_device(
      constants.device(),
      detail::concat("cuBLAS in ", name(p.precision), ", the sum in ", parts, parts == 1 ? " part" : " parts"),
      {.workspace = alignment + gemm_bytes},
      [=, precision = p.precision, rows = problem.rows, in = problem.in, out = problem.out, constants = constants,
       cublas = Cublas::on_device(constants.device())](std::span<const Tensor> inputs, std::span<Tensor> outputs,
                                                       const Execution& execution) {
        auto* aligned = reinterpret_cast<char*>(
            detail::round_up(reinterpret_cast<std::uintptr_t>(execution.workspace), std::uintptr_t{alignment}));
        // Row-major output [rows, out] = input [rows, in] * weight' is, column-major as cuBLAS reads memory,
        // output' [out, rows] = (weight' [in, out])' * input' [in, rows].
        for (int first = 0; first < in; first += depth) {
          const std::size_t skipped = static_cast<std::size_t>(first) * size_of(operands);
          cublas->gemm({.operands = operands,
                        .result = result,
                        .m = out,
                        .n = rows,
                        .k = std::min(depth, in - first),
                        .transpose_a = true,
                        .a = weight + skipped,
                        .lda = in,
                        .b = static_cast<const std::byte*>(inputs[0].raw()) + skipped,
                        .ldb = in,
                        .beta = first == 0 ? 0.0f : 1.0f,
                        .c = outputs[0].raw(),
                        .ldc = out},
                       precision, aligned, gemm_bytes, execution.stream);
        }
        if (finish != nullptr) finish->run(outputs, outputs, execution);
      });
}

bool product_takes(const LinearProblem&, const Preparation& p) {
  // Which of its kernels cuBLAS takes, and how that adds, follows the number of rows.
  if (!linear_formats_fit(p) || p.batch_invariant) return false;
  // Whether the library is there is no property of the device; it is looked for when nothing else pays.
  try {
    (void)Cublas::on_device(p.device.device.index);
    return true;
  } catch (const Error&) {
    return false;  // a network must not need a library that only its last layers use
  }
}

template <bool (*takes)(const ConvProblem&, const Preparation&)>
bool convolution_takes(const LinearProblem& problem, const Preparation& p) {
  const detail::LinearAsConvolution convolution(problem, p);
  return linear_formats_fit(p) && takes(convolution.problem, convolution.preparation);
}

template <std::unique_ptr<Operator> (*prepare)(const ConvProblem&, const Preparation&)>
std::unique_ptr<Operator> prepare_convolution(const LinearProblem& problem, const Preparation& p) {
  const detail::LinearAsConvolution convolution(problem, p);
  return prepare(convolution.problem, convolution.preparation);
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

/// Where rows of this shape pay and the convolution does.
template <bool (*rows)(const LinearProblem&, const Preparation&), bool (*pays)(const ConvProblem&, const Preparation&)>
bool convolution_pays(const LinearProblem& problem, const Preparation& p) {
  const detail::LinearAsConvolution convolution(problem, p);
  return rows(problem, p) && pays(convolution.problem, convolution.preparation);
}

/// What is done to its codes is done by the convolution, too, if one of its kernels does that.
bool codes_take(const LinearProblem& problem, const Preparation& p) {
  return detail::is_eight_bits(problem, p) && ((!problem.epilogue.reads_operands() && !problem.epilogue.table()) ||
                                               detail::takes_by_convolution(problem, p));
}

/// Tiles of int8_wgmma are 64 outputs of steps of 128 terms: few blocks, which wait for one step after the other.
/// Before Hopper what codes stand for is written here or by plain loops.
bool code_rows_pay(const LinearProblem& problem, const Preparation& p) {
  constexpr std::int64_t few_weights = 1 << 22;  // which L2 and L1 bring for every eight rows
  const bool few = problem.rows <= 32 && std::int64_t{problem.in} * problem.out <= few_weights;
  return problem.rows <= linear_rows_at_once || few ||
         (problem.epilogue.rounds() && !problem.epilogue.table() && !p.device.wgmma);
}

constexpr Features of_element = reads::chain | reads::operands, of_codes = reads::codes | reads::chain |
                                                                           reads::sum_codes | reads::table |
                                                                           reads::float_bias | reads::sums;

constexpr Kernel<LinearProblem> table[] = {
    map_row<LinearProblem>,
    {"stream", linear_stream_takes, prepare_linear_stream, many_rows},
    {"mma", convolution_takes<mma::resident::takes>, prepare_convolution<mma::resident::prepare>,
     convolution_pays<narrow, preference::mma>, of_element},
    {"channels_last", convolution_takes<channels_last::takes>, prepare_convolution<channels_last::prepare>, many_rows,
     of_element},
    {"implicit_gemm", convolution_takes<mma::gathered::takes>, prepare_convolution<mma::gathered::prepare>,
     convolution_pays<many_rows, preference::implicit_gemm>, of_element},
    {"rows", rows_take, prepare_linear_rows, rows_pay, reads::chain},
    {"cublas", product_takes, prepare_product, many_rows},
    {"int8_rows", linear_code_rows_take, prepare_linear_code_rows, code_rows_pay, of_codes},
    {"int8", codes_take, detail::prepare_by_convolution, nullptr, of_codes | reads::operands | reads::zero_points}};

}  // namespace
}  // namespace lamina::cuda

namespace lamina {

template <>
std::span<const Kernel<LinearProblem>> Kernels<LinearProblem>::cuda() {
  return cuda::table;
}

}  // namespace lamina
