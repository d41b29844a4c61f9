// The tables of a GPU's smaller kernels, of activations of f32, f16 or bf16, and that of Maps. Those of arrays of any
// dtype and shape are in array/, lookup/ and product/.

#include "lamina/cuda/eight_bits/kernels.h"
#include "lamina/cuda/kernels.h"
#include "lamina/cuda/map/map.h"
#include "lamina/cuda/runtime/device.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/tensor/constants.h"

namespace lamina {
namespace {

using namespace cuda;
using namespace tables;

template <class Problem>
bool keeps_format(const Problem&, const Preparation& p) {
  return p.keeps_format();
}

template <class Problem>
bool any_format(const Problem&, const Preparation&) {
  return true;
}

std::unique_ptr<Operator> prepare_normalization(const NormalizationProblem& problem, const Preparation& p) {
  const Format to = p.output().format;
  const Tensor table = detail::constant(problem.table, p.device.device);
  return make_operator(detail::concat("normalisation from ", p.input().format, " to ", to, problem.bgr ? ", bgr" : ""),
                       [=, bgr = problem.bgr, device = index(p), a = detail::activation_of(p.input().shape)](
                           Inputs inputs, Outputs outputs, const Execution& execution) {
                         cuda::normalize(device, a, inputs[0].raw(), floats(table), bgr, to, outputs[0].raw(),
                                         execution.stream);
                       });
}

bool takes_compiled_map(const MapProblem& problem, const Preparation& p) {
  return takes_map(problem, p) && driver_compiles(index(p));
}

constexpr Kernel<AffineProblem> affine[] = {
    map_row<AffineProblem>,
    {"codes", takes_affine_of_codes, prepare_affine_of_codes, nullptr, reads::slices | reads::codes},
    plain_row<AffineProblem>};
constexpr Kernel<SoftmaxProblem> softmax[] = {map_row<SoftmaxProblem>, plain_row<SoftmaxProblem>};
constexpr Kernel<LocalResponseProblem> local_response[] = {{"threads", keeps_format, prepare_local_response}};
constexpr Kernel<PoolProblem> pool[] = {
    map_row<PoolProblem>,
    {"windows", takes_pool, prepare_pool, nullptr, reads::slices},
    {"codes", takes_pool_of_codes, prepare_pool_of_codes, nullptr, reads::slices | reads::codes}};
constexpr Kernel<ConversionProblem> conversion[] = {map_row<ConversionProblem>, plain_row<ConversionProblem>};
constexpr Kernel<MapProblem> map[] = {
    {"map", takes_compiled_map, prepare_map, fits_blocks, reads::slices | reads::strides}};
constexpr Kernel<NormalizationProblem> normalization[] = {{"table", any_format, prepare_normalization}};

}  // namespace

// clang-format off
template <> std::span<const Kernel<AffineProblem>> Kernels<AffineProblem>::cuda() { return affine; }
template <> std::span<const Kernel<SoftmaxProblem>> Kernels<SoftmaxProblem>::cuda() { return softmax; }
template <> std::span<const Kernel<LocalResponseProblem>> Kernels<LocalResponseProblem>::cuda() { return local_response; }
template <> std::span<const Kernel<PoolProblem>> Kernels<PoolProblem>::cuda() { return pool; }
template <> std::span<const Kernel<ConversionProblem>> Kernels<ConversionProblem>::cuda() { return conversion; }
template <> std::span<const Kernel<MapProblem>> Kernels<MapProblem>::cuda() { return map; }
template <> std::span<const Kernel<NormalizationProblem>> Kernels<NormalizationProblem>::cuda() { return normalization; }
// clang-format on

}  // namespace lamina
