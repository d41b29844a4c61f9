#pragma once

#include "lamina/kernel/bottleneck.h"
#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/conv_sum.h"
#include "lamina/kernel/map/map.h"
#include "lamina/kernel/problems.h"
#include "lamina/kernel/rules/lookup/find.h"
#include "lamina/kernel/rules/recurrent.h"
#include "lamina/kernel/squeeze_excite.h"

/// Every kind of problem, once: calls each(Problem) for all of them. A macro because that is how an explicit
/// instantiation can be written for each of a list; undefine `each` behind it.
#define LAMINA_ALL_PROBLEMS(each)                                                                                     \
  each(AffineProblem) each(AttentionProblem) each(BottleneckProblem) each(ConcatProblem) each(ConvPairProblem)        \
      each(ConvProblem) each(ConvSumProblem) each(ConversionProblem) each(CumulativeProblem) each(FindProblem)        \
          each(GatherProblem) each(GridSampleProblem) each(LinearProblem) each(LocalResponseProblem) each(MapProblem) \
              each(MatMulProblem) each(MoveProblem) each(NormProblem) each(NormalizationProblem)                      \
                  each(PointwiseProblem) each(PoolProblem) each(RecurrentProblem) each(ReduceProblem)                 \
                      each(ResampleProblem) each(ScatterProblem) each(SoftmaxProblem) each(SqueezeExciteProblem)      \
                          each(TopKProblem)
