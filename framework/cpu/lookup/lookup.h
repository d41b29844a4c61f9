#pragma once

#include <memory>

#include "lamina/base/thread_pool.h"
#include "lamina/kernel/operator.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"
#include "lamina/kernel/rules/lookup/find.h"
#include "lamina/kernel/rules/lookup/lookup_extents.h"

/// Lookups and scans on a CPU: the operators of problems that kernels.cpp takes. None allocates as it runs.
namespace lamina::cpu {

/// Indices are of i64 or i32; of one that is outside a run throws Error.
std::unique_ptr<Operator> prepare_gather(const GatherProblem& problem, const Preparation& preparation);

/// Updates are put in in order. Sums and products of whole numbers wrap, those of booleans are or and and; 16-bit
/// floats round each time.
std::unique_ptr<Operator> prepare_scatter(const ScatterProblem& problem, const Preparation& preparation);

/// Running sums or products of f32, in double precision, f64, i32 or i64.
std::unique_ptr<Operator> prepare_cumulative(const CumulativeProblem& problem, const Preparation& preparation);

/// What only a run finds. Throws Error, as it runs, of counts that are not as their rule says.
std::unique_ptr<Operator> prepare_find(const FindProblem& problem, const Preparation& preparation);

/// Of any dtype; equals by place.
std::unique_ptr<Operator> prepare_topk(const TopKProblem& problem, const Preparation& preparation);

/// Images, also [N, C, D, H, W] with a grid of (x, y, z), linear or nearest. A coordinate that is not finite lies
/// outside, as PyTorch has it on a GPU.
std::unique_ptr<Operator> prepare_grid_sample(const GridSampleProblem& problem, const Preparation& preparation);

/// Bins of boxes, f32 nchw. A box of an image that is not there is an Error of the run.
std::unique_ptr<Operator> prepare_bins(const GridSampleProblem& problem, const Preparation& preparation);

/// Weighted sums of taps along some dimensions, row by row: rows are summed over the taps of all dimensions but the
/// last, then the taps of the last one are taken from that sum. Another layout on the way only to planes.
std::unique_ptr<Operator> prepare_resample(const ResampleProblem& problem, const Preparation& preparation);

}  // namespace lamina::cpu
