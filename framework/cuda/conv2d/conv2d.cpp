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
#include "lamina/cuda/map/map.h"
#include "lamina/kernel/bottleneck.h"
#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/kernel.h"

namespace lamina {
namespace {

using namespace cuda;

/// Plain loops take the place of no kernel that leaves codes and of what reads them.
bool leaves_codes(const ConvProblem& problem, const Preparation&) { return !problem.epilogue.rounds(); }

constexpr Features of_element = reads::chain | reads::operands, slices = reads::slices, uneven = reads::uneven,
                   of_codes = reads::codes | reads::chain | reads::sum_codes,
                   of_pair = reads::chain | reads::sum_codes | reads::table;

constexpr Kernel<ConvProblem> table[] = {
    map_row<ConvProblem>,
    {"stem", stem::takes, stem::prepare, preference::stem, uneven | reads::chain},
    {"first_layer", first_layer::takes, first_layer::prepare, nullptr, uneven | slices | reads::chain | reads::pool},
    {"narrow", narrow::takes, narrow::prepare, preference::narrow,
     slices | of_codes | reads::operands | reads::table | reads::scaled | reads::product},
    {"channels_last", channels_last::takes, channels_last::prepare, channels_last::pays,
     uneven | slices | of_element | reads::pool},
    {"depthwise", depthwise::takes, depthwise::prepare, nullptr, uneven | slices | of_element},
    {"mma", mma::resident::takes, mma::resident::prepare, preference::mma, uneven | slices | of_element},
    {"planes", mma::planes::takes, mma::planes::prepare, preference::planes, reads::chain | reads::operands},
    {"implicit_gemm", mma::gathered::takes, mma::gathered::prepare, preference::implicit_gemm,
     uneven | slices | of_element},
    {"tiled", ladder::takes, ladder::prepare_tiled, nullptr, uneven},
    {"im2col", ladder::im2col_takes, ladder::prepare_im2col, nullptr, uneven},
    {"direct_fixed", ladder::takes, ladder::prepare_fixed},
    {"direct_padded", ladder::takes, ladder::prepare_padded},
    {"direct", ladder::takes, ladder::prepare_direct, nullptr, uneven},
    {"int8_stem", stem::codes::takes, stem::codes::prepare, nullptr,
     of_codes | reads::table | reads::pool | reads::rounding},
    {"int8_depthwise", depthwise::takes_codes, depthwise::prepare_codes, nullptr,
     of_codes | reads::table | reads::float_bias},
    {"int8_mma", mma::resident::takes_codes, mma::resident::prepare, preference::int8_mma,
     slices | of_codes | reads::operands | reads::table},
    {"int8_wgmma", channels_last::takes_codes, channels_last::prepare_codes, nullptr,
     slices | of_codes | reads::operands | reads::table | reads::float_bias | reads::sums},
    {"int8_direct", eight_bits::takes_direct, eight_bits::prepare_direct, leaves_codes,
     slices | of_codes | reads::float_bias | reads::zero_points | reads::sums}};

constexpr Kernel<ConvSumProblem> sums[] = {{"channels_last", channels_last::takes_sum, channels_last::prepare_sum,
                                            channels_last::pays_sum, reads::chain | reads::pool}};

constexpr Kernel<BottleneckProblem> bottlenecks[] = {
    {"channels_last", channels_last::bottleneck::takes, channels_last::bottleneck::prepare,
     channels_last::bottleneck::pays, of_element | reads::behind(reads::chain)}};

constexpr Kernel<ConvPairProblem> pairs[] = {{"depthwise", depthwise::takes_pair, depthwise::prepare_pair,
                                              depthwise::pays_pair, reads::codes | of_pair | reads::behind(of_pair)}};

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
