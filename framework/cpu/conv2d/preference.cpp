#include "lamina/cpu/conv2d/preference.h"

#include "lamina/cpu/conv2d/bf16/engine.h"

namespace lamina::cpu::preference {
namespace {

/// Whether the L2 caches of the threads do not hold what a convolution of bf16 gives: then what follows it is computed
/// with it, though tasks compute the rows anew that windows of neighbouring tasks share.
bool outgrows_caches(const ConvGeometry& g, const Preparation& p) {
  const auto caches = static_cast<std::size_t>(p.threads * bf16::best_engine(p.device).cache);
  return static_cast<std::size_t>(g.output_size()) * sizeof(bfloat16) > caches / 2;
}

}  // namespace

/// A group that fills a vector by itself is quicker with its inputs broadcast.
bool lanes(const ConvProblem& problem, const Preparation& p) {
  return problem.geometry.group_out_channels() <= (p.device.instructions == InstructionSet::avx512 ? 8 : 4);
}

/// Of a depthwise layer's tile all but a 32nd is zeros: rather are planes turned.
bool bf16_tiles(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  return g.groups == 1 || g.group_in_channels() > 1 || p.input().format.layout == Layout::nhwc;
}

/// What stays in the last cache between the two costs less than rows that are computed twice.
bool pair(const ConvPairProblem& problem, const Preparation&) {
  return problem.first.geometry.output_size() * static_cast<std::int64_t>(sizeof(float)) > 6 << 20;
}
bool bf16_pair(const ConvPairProblem& problem, const Preparation& p) {
  return outgrows_caches(problem.first.geometry, p);
}
bool pooled(const ConvProblem& problem, const Preparation& p) { return outgrows_caches(problem.geometry, p); }

}  // namespace lamina::cpu::preference
