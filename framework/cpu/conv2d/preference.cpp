#include "lamina/cpu/conv2d/preference.h"

#include "lamina/base/math.h"
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

/// In loads and multiply-adds of a vector for as many pixels of a group as it has lanes: of pixels for each filter and
/// term, where a filter alone shares its loads with none, against those of filters or of neighbouring groups, and all
/// channels turned on their way in and out. Fitted to 190 layers of 14, 28 and 112 pixels a row.
bool rows(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const int lanes = p.device.instructions == InstructionSet::avx512 ? 16
                    : p.device.instructions == InstructionSet::avx2 ? 8
                                                                    : 4;
  const int filters = g.group_out_channels(), channels = g.group_in_channels();
  const auto terms = static_cast<double>(g.reduction());
  const bool shared = g.groups > 1 && g.out_channels >= lanes && preference::lanes(problem, p);
  const double vectors =
      shared ? filters / (channels == 1 && filters == 1 ? 2.0 : 1.0) / lanes : detail::ceil_div(filters, lanes) / 2.0;
  const double padded = 1 + (g.kernel_width - 1.0) * g.dilation_width / g.out_width;
  return (filters + 0.7 * (filters % 2)) * terms * padded < lanes * (vectors * terms + 0.5 * (filters + channels));
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
