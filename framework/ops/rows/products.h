#pragma once

#include "lamina/ops/expansion.h"

namespace lamina::detail {

/// x [..., in] times the transpose of weights [out, in], plus a bias [out] where there is one; f32, x of rank 1 or
/// more.
int linear(Expansion& e, int x, const Tensor& weight, const Tensor& bias, const EightBitWeights& eight = {});

/// numpy.matmul, in the type of a: whole numbers too. A known matrix b makes it a fully connected layer.
int matmul(Expansion& e, int a, int b);

/// alpha * a b of operands that have one type and rank 2 or more, see MatMulProblem.
int multiply(Expansion& e, int a, int b, const MatMulProblem& problem);

/// Rows of the op table, which are in product_ops.cpp.
int einsum(Expansion& e);
int attention(Expansion& e);
int multi_head_attention(Expansion& e);
int rotary_embedding(Expansion& e);

}  // namespace lamina::detail
