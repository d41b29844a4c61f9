#pragma once

#include "lamina/cuda/runtime/launched.h"
#include "lamina/kernel/problems.h"

/// Products of matrices, any extents and addresses, and attention; f32, f16 or bf16.
namespace lamina::cuda {

/// Few rows or one column, each a few sums over a and b that are read once.
Takes<MatMulProblem> takes_matmul_rows;
Prepare<MatMulProblem> prepare_matmul_rows;

/// Of few terms, in many products.
Takes<MatMulProblem> takes_matmul_short, matmul_short_pays;
Prepare<MatMulProblem> prepare_matmul_short;

/// On tensor cores (mma.sync, sm_80) with fp32 accumulation; f16 or bf16.
Takes<MatMulProblem> takes_matmul_mma;
Prepare<MatMulProblem> prepare_matmul_mma;

/// By fp32 multiply-adds; f32.
Takes<MatMulProblem> takes_matmul;
Prepare<MatMulProblem> prepare_matmul;

/// In fp32 multiply-adds.
Takes<AttentionProblem> takes_attention;
Prepare<AttentionProblem> prepare_attention;

/// The same on tensor cores (mma.sync, sm_80), of f32 as three products of TF32.
Takes<AttentionProblem> takes_attention_mma;
Prepare<AttentionProblem> prepare_attention_mma;

/// The same with a warp for all rows of an image and group: for few rows and positions, of f16 or bf16.
Takes<AttentionProblem> takes_attention_few;
Prepare<AttentionProblem> prepare_attention_few;

/// The same with the positions of 16 rows shared by a block's warps: for few rows. The order of its sums is its own.
Takes<AttentionProblem> takes_attention_split, attention_split_pays;
Prepare<AttentionProblem> prepare_attention_split;

}  // namespace lamina::cuda
