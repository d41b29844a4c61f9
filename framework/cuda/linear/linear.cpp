// The fully connected layers of a GPU: the table, and the kernels that others do the work of.

#include "lamina/cuda/conv2d/channels_last/channels_last.h"
#include "lamina/cuda/conv2d/mma/mma.h"
#include "lamina/cuda/conv2d/preference.h"
#include "lamina/cuda/linear/kernels.h"
#include "lamina/cuda/short_finish.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/linear_as_convolution.h"

namespace lamina::cuda {
namespace {

/// Rows up to which `rows` is the fastest, by measurement (docs/inside/plans.md): on Hopper `stream` takes over early.
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

/// What is done to its codes by the convolution, too.
bool codes_take(const LinearProblem& problem, const Preparation& p) {
  if (!problem.eight.codes.defined()) return detail::is_eight_bits(problem, p);
  return detail::are_rows_in_order(p) && detail::takes_by_convolution(problem, p);
}

constexpr Kernel<LinearProblem> table[] = {
    {"stream", linear_stream_takes, prepare_linear_stream, many_rows},
    {"mma", convolution_takes<mma::resident::takes>, prepare_convolution<mma::resident::prepare>,
     convolution_pays<narrow, preference::mma>},
    {"channels_last", convolution_takes<channels_last::takes>, prepare_convolution<channels_last::prepare>, many_rows},
    {"implicit_gemm", convolution_takes<mma::gathered::takes>, prepare_convolution<mma::gathered::prepare>,
     convolution_pays<many_rows, preference::implicit_gemm>},
    {"rows", rows_take, prepare_linear_rows, rows_pay},
    {"int8", codes_take, detail::prepare_by_convolution, nullptr, false, false, false, true}};

}  // namespace
}  // namespace lamina::cuda

namespace lamina {

template <>
std::span<const Kernel<LinearProblem>> Kernels<LinearProblem>::cuda() {
  return cuda::table;
}

}  // namespace lamina
