// The tables of a GPU's products of matrices.

#include "lamina/cuda/product/product.h"
#include "lamina/kernel/kernel.h"

namespace lamina {
namespace {

using namespace cuda;

constexpr Kernel<MatMulProblem> matmul[] = {{"short", takes_matmul_short, prepare_matmul_short, matmul_short_pays},
                                            {"rows", takes_matmul_rows, prepare_matmul_rows},
                                            {"mma", takes_matmul_mma, prepare_matmul_mma},
                                            {"tiles", takes_matmul, prepare_matmul}};
constexpr Kernel<AttentionProblem> attention[] = {
    {"few", takes_attention_few, prepare_attention_few, nullptr, reads::strides},
    {"split", takes_attention_split, prepare_attention_split, attention_split_pays, reads::strides},
    {"mma", takes_attention_mma, prepare_attention_mma, nullptr, reads::strides},
    {"online", takes_attention, prepare_attention, nullptr, reads::strides}};

}  // namespace

// clang-format off
template <> std::span<const Kernel<MatMulProblem>> Kernels<MatMulProblem>::cuda() { return matmul; }
template <> std::span<const Kernel<AttentionProblem>> Kernels<AttentionProblem>::cuda() { return attention; }
// clang-format on

}  // namespace lamina
