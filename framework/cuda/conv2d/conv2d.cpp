// The convolutions of a GPU: the table, the fastest first. Tensor cores if they take it; `tiled` is the fastest of the
// five textbook kernels by measurement (docs/inside/kernels.md), and im2col the only one that has TF32.

#include "lamina/cuda/conv2d/channels_last/bottleneck/bottleneck.h"
#include "lamina/cuda/conv2d/channels_last/channels_last.h"
#include "lamina/cuda/conv2d/depthwise/depthwise.h"
#include "lamina/cuda/conv2d/eight_bits.h"
#include "lamina/cuda/conv2d/first_layer/first_layer.h"
#include "lamina/cuda/conv2d/ladder/ladder.h"
#include "lamina/cuda/conv2d/mma/mma.h"
#include "lamina/cuda/conv2d/narrow/narrow.h"
#include "lamina/cuda/conv2d/preference.h"
#include "lamina/cuda/conv2d/stem/codes.h"
#include "lamina/cuda/conv2d/stem/stem.h"
#include "lamina/kernel/bottleneck.h"
#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/kernel.h"

namespace lamina {
namespace {

using namespace cuda;

constexpr bool codes = true;

/// Plain loops take the place of no kernel that leaves codes and of what reads them.
bool leaves_codes(const ConvProblem& problem, const Preparation&) { return !problem.eight.codes.defined(); }

constexpr Kernel<ConvProblem> table[] = {
    {"stem", stem::takes, stem::prepare, preference::stem},
    {"first_layer", first_layer::takes, first_layer::prepare, nullptr, true},
    {"narrow", narrow::takes, narrow::prepare, preference::narrow, true, false, false, codes},
    {"channels_last", channels_last::takes, channels_last::prepare, channels_last::pays, true},
    {"depthwise", depthwise::takes, depthwise::prepare},
    {"mma", mma::resident::takes, mma::resident::prepare, preference::mma, true},
    {"implicit_gemm", mma::gathered::takes, mma::gathered::prepare, preference::implicit_gemm, true},
    {"tiled", ladder::takes, ladder::prepare_tiled},
    {"im2col", ladder::im2col_takes, ladder::prepare_im2col},
    {"direct_fixed", ladder::takes, ladder::prepare_fixed},
    {"direct_padded", ladder::takes, ladder::prepare_padded},
    {"direct", ladder::takes, ladder::prepare_direct},
    {"int8_stem", stem::codes::takes, stem::codes::prepare, nullptr, false, false, false, codes},
    {"int8_depthwise", depthwise::takes_codes, depthwise::prepare_codes, nullptr, false, false, false, codes},
    {"int8_mma", mma::resident::takes_codes, mma::resident::prepare, preference::int8_mma, true, false, false, codes},
    {"int8_wgmma", channels_last::takes_codes, channels_last::prepare_codes, nullptr, true, false, false, codes},
    {"int8_direct", eight_bits::takes_direct, eight_bits::prepare_direct, leaves_codes, true, false, false, codes}};

constexpr Kernel<ConvSumProblem> sums[] = {
    {"channels_last", channels_last::takes_sum, channels_last::prepare_sum, channels_last::pays_sum}};

constexpr Kernel<BottleneckProblem> bottlenecks[] = {{"channels_last", channels_last::bottleneck::takes,
                                                      channels_last::bottleneck::prepare,
                                                      channels_last::bottleneck::pays}};

constexpr Kernel<ConvPairProblem> pairs[] = {
    {"depthwise", depthwise::takes_pair, depthwise::prepare_pair, depthwise::pays_pair, false, false, false, codes}};

}  // namespace

template <>
std::span<const Kernel<ConvProblem>> Kernels<ConvProblem>::cuda() {
  return table;
}

template <>
std::span<const Kernel<ConvSumProblem>> Kernels<ConvSumProblem>::cuda() {
  return sums;
}

template <>
std::span<const Kernel<BottleneckProblem>> Kernels<BottleneckProblem>::cuda() {
  return bottlenecks;
}

template <>
std::span<const Kernel<ConvPairProblem>> Kernels<ConvPairProblem>::cuda() {
  return pairs;
}

}  // namespace lamina
