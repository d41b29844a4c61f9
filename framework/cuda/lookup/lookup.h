#pragma once

#include "lamina/cuda/runtime/launched.h"
#include "lamina/kernel/problems.h"
#include "lamina/kernel/rules/lookup/find.h"

/// Lookups and scans; cpu/lookup says what they compute.
namespace lamina::cuda {

/// f16, bf16, f32 and f64 in double precision, i32, i64.
Takes<CumulativeProblem> takes_cumulative;
Prepare<CumulativeProblem> prepare_cumulative;

/// Places, and counts: one that is not as its rule says is noted in Execution::fault, and 0 stands for it.
Takes<FindProblem> takes_find;
Prepare<FindProblem> prepare_find;
/// As far as the scores of a class fit into shared memory.
Takes<FindProblem> takes_boxes;
Prepare<FindProblem> prepare_boxes;

/// An index that is outside is noted in Execution::fault, unless that is null, and 0 stands for its element.
Prepare<GatherProblem> prepare_gather;

/// f32, f16 or bf16, the grid likewise or f32.
Takes<GridSampleProblem> takes_grid_sample;
Prepare<GridSampleProblem> prepare_grid_sample;

/// f32, f16 or bf16 in any layout, the boxes likewise or f32. A box of an image that is not there is noted as an index
/// of gather is.
Takes<GridSampleProblem> takes_bins;
Prepare<GridSampleProblem> prepare_bins;

/// f32, f16 or bf16.
Takes<ResampleProblem> takes_resample;
Prepare<ResampleProblem> prepare_resample;

/// The same bits on every run. Updates of indices that are outside are left out, and noted as those of gather.
Prepare<ScatterProblem> prepare_scatter;

Takes<TopKProblem> takes_topk;
Prepare<TopKProblem> prepare_topk;

}  // namespace lamina::cuda
