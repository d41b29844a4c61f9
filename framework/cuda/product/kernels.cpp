// The tables of a GPU's products of matrices.

#include "lamina/cuda/product/product.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/rules/lookup/lookup_extents.h"

namespace lamina {
namespace {

using namespace cuda;

/// In 16 bits, heads too wide for tensor cores, of fewer scores than they read (attention between channels: El-Nouby et
/// al., "XCiT", 2021), are two products on tensor cores and a softmax.
bool pays_online(const AttentionProblem& problem, const Preparation& p) {
  const detail::AttentionExtents e = detail::attention_extents(problem, p);
  constexpr std::int64_t most_width = 128;
  const bool wide = e.depth > most_width || e.width > most_width;
  const bool has_tensor_cores = size_of(storage_type(p.precision)) == 2 && p.device.architecture >= 80;
  return !wide || !has_tensor_cores || e.length * e.positions > e.length * e.depth + e.positions * e.width;
}

constexpr Kernel<MatMulProblem> matmul[] = {{"short", takes_matmul_short, prepare_matmul_short, matmul_short_pays},
                                            {"rows", takes_matmul_rows, prepare_matmul_rows},
                                            {"mma", takes_matmul_mma, prepare_matmul_mma},
                                            {"tiles", takes_matmul, prepare_matmul}};
constexpr Kernel<AttentionProblem> attention[] = {
    {"few", takes_attention_few, prepare_attention_few, nullptr, reads::strides},
    {"split", takes_attention_split, prepare_attention_split, attention_split_pays, reads::strides},
    {"mma", takes_attention_mma, prepare_attention_mma, nullptr, reads::strides},
    {"online", takes_attention, prepare_attention, pays_online, reads::strides}};

}  // namespace

// clang-format off
template <> std::span<const Kernel<MatMulProblem>> Kernels<MatMulProblem>::cuda() { return matmul; }
template <> std::span<const Kernel<AttentionProblem>> Kernels<AttentionProblem>::cuda() { return attention; }
// clang-format on

}  // namespace lamina
