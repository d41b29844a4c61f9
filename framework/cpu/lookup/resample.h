#pragma once

#include <cstddef>
#include <cstdint>

#include "lamina/base/thread_pool.h"
#include "lamina/kernel/problems.h"

namespace lamina::cpu {

/// Weighted sums of taps along some dimensions, see ResampleProblem, row by row: rows are summed over the taps of all
/// dimensions but the last, then the taps of the last one are taken from that sum. `steps`: elements of the input from
/// one index to the next, along each dimension; those that follow the last resampled one lie as in a row. Allocates
/// nothing; `workspace` is resample_workspace() bytes.
void resample(const ResampleProblem& problem, const Shape& in, const Shape& steps, const Shape& out, const float* input,
              float* output, ThreadPool& pool, float* workspace);
std::size_t resample_workspace(const ResampleProblem& problem, const Shape& in, int threads);

}  // namespace lamina::cpu
