#include "lamina/cuda/conv2d/preference.h"

#include <algorithm>

#include "lamina/kernel/rules/epilogue_rules.h"
#include "lamina/kernel/rules/order_of_sums.h"
#include "lamina/kernel/rules/patches.h"

namespace lamina::cuda::preference {
namespace {

/// Multiply-adds of the layer, in a usual plan where batches must not matter.
double products(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  return (p.batch_invariant ? lamina::detail::of_images(g, p, 32) : g).flops() / 2;
}

}  // namespace

/// Beside first_layer and the implicit products: more filters are several slices, each of which reads the image again.
bool stem(const ConvProblem& problem, const Preparation&) { return problem.geometry.out_channels <= 64; }

/// Beside channels_last, whose tiles have 64 filters: of few it takes a half to a quarter of that one's time, and
/// beyond some products wgmma gains, for its own sake and over a step that multiplies the image by its factors, which
/// no other row does as it reads.
///
/// Of few products channels_last takes longer to begin and to end than to multiply, whatever the filters are and
/// whatever becomes of them.
///
/// In a network it counts what runs beside it, too: among dense layers, which end in a ReLU, its blocks leave
/// channels_last's no registers to begin with, and ResNet50 at N = 1 took 7 % longer (experiment D11). Linear
/// bottlenecks (Sandler et al., "MobileNetV2", 2018) come behind depthwise layers, which it suits.
///
/// Of codes nothing else need be left of a ReLU than a zero point that is the lowest. Pixels of codes that are no whole
/// 16 bytes are copied first for int8_wgmma: a launch more. Before Hopper there are but plain loops beside it.
bool narrow(const ConvProblem& problem, const Preparation& p) {
  constexpr int few_filters = 32, max_filters = 320;
  constexpr double few_products = 3e7, max_products = 5e8, max_scaled_products = 1.2e9;
  if (p.has_codes() && !p.device.wgmma) return true;
  const bool copied = p.has_codes() && !problem.scaled() && problem.geometry.in_channels % 16 != 0;
  if (copied) return products(problem, p) <= max_products;
  const int filters = problem.geometry.out_channels;
  const bool is_small = p.device.architecture >= 90 && products(problem, p) <= few_products;
  if (is_small && !p.has_codes() && !problem.scaled()) return true;
  if (filters > max_filters) return false;
  if (problem.scaled()) return filters <= few_filters || products(problem, p) <= max_scaled_products;
  if (p.device.architecture < 90) return false;  // measured on Hopper alone
  const auto clamps = [](const PointwiseStep& step) { return lamina::detail::clamp_of(step).has_value(); };
  const bool linear = std::ranges::none_of(problem.epilogue.chain, clamps);
  const View& output = p.output();
  const int lowest = output.format.dtype == DType::u8 ? 0 : -128;
  const bool bent =
      output.quantization.defined() && (problem.epilogue.table() || output.quantization.zero_point == lowest);
  return filters <= few_filters || (linear && !bent && products(problem, p) <= max_products);
}

/// Beside a launch for the map and one that reads it and writes a quarter: rectangles divide some layers worse.
bool pooled(const ConvProblem& problem, const PooledCycles& expected) {
  constexpr double launch = 3000, bytes_per_cycle = 2600;
  const double step = launch + static_cast<double>(problem.geometry.output_size()) * 2 * 1.25 / bytes_per_cycle;
  return expected.with < expected.without + step;
}

/// Beside the dense kernels: groups but for large windows over those that are wide enough for implicit_gemm, and dense
/// layers whose channels fill no units of 16 bytes, but for images of few channels. On Hopper to add something here
/// instead of in a step behind channels_last takes more time than it saves, where that takes the channels.
bool mma(const ConvProblem& problem, const Preparation& p) {
  constexpr int wide = 128, few_channels = 4;
  constexpr std::size_t unit_bytes = 16;
  const ConvGeometry& g = problem.geometry;
  if (g.groups > 1) return g.group_out_channels() < wide || g.kernel_height * g.kernel_width == 1;
  const auto fill_units = [&](int channels) {
    return static_cast<std::size_t>(channels) * size_of(storage_type(p.precision)) % unit_bytes == 0;
  };
  if (!p.device.wgmma) return g.in_channels > few_channels && !fill_units(g.in_channels);
  const bool alone = !fill_units(g.in_channels) || !fill_units(g.out_channels);
  return (alone || !problem.epilogue.reads_operands()) && (g.in_channels > few_channels || g.in_pixels() == 1);
}

/// Beside int8_wgmma, of whose 64 filters each multiplies the channels of all their groups, which are to end where 0 is
/// the zero point, too. Before Hopper there are but plain loops beside it.
bool int8_mma(const ConvProblem& problem, const Preparation& p) {
  constexpr int wide = 64;
  const ConvGeometry& g = problem.geometry;
  if (!p.device.wgmma) return true;
  return g.groups > 1 && (g.group_out_channels() < wide || p.input().quantization.zero_point != 0);
}

/// Images of one row of pixels are mostly tokens, which norms and sums around them read as they are; others are better
/// off channels last.
bool planes(const ConvProblem& problem, const Preparation&) { return problem.geometry.in_height == 1; }

/// On Hopper it is for what the faster kernels leave, and what those fuse is not to end here; patches in 16 bits are
/// for channels_last, the conversion of the picture included.
bool implicit_gemm(const ConvProblem& problem, const Preparation& p) {
  constexpr int whole = 8;  // channels that TMA steps by
  const ConvGeometry& g = problem.geometry;
  // Of 64 filters that a block multiplies a window by, one is there: tens of times slower than to convert the operand.
  if (g.groups > 1 && g.groups == g.in_channels && g.groups == g.out_channels) return false;
  if (!p.device.wgmma) return true;
  const bool patches = size_of(storage_type(p.precision)) == 2 && lamina::detail::is_patches(g) &&
                       g.in_channels * g.kernel_width % whole == 0 && g.out_channels % whole == 0;
  return problem.epilogue.is_simple() && !patches;
}

/// Beside two launches of channels_last, whose rule knows nothing of memory; a layer in a network takes a quarter more
/// than either says, and its launch something besides.
bool bottleneck(const BottleneckProblem& problem, const BottleneckCycles& expected) {
  constexpr double beginning = 3130, bytes_per_cycle = 2100, slower = 1.25, launch = 2500;
  const ConvGeometry &g = problem.wide.first.geometry, &n = problem.narrow.geometry;
  const auto apart = [&](double cycles, std::int64_t elements) {
    return std::max(cycles, beginning + static_cast<double>(elements) * 2 / bytes_per_cycle);
  };
  std::int64_t read = g.input_size() + (problem.wide.first.epilogue.reads_operands() ? g.output_size() : 0);
  if (problem.sums()) read += g.batch * g.out_pixels() * problem.wide.second.in_channels;
  const double both_apart =
      apart(expected.wide, read + g.output_size()) + apart(expected.narrow, n.input_size() + n.output_size());
  return expected.both < slower * both_apart + launch;
}

/// Beside one after the other, which begin twice, write and read what lies between, mostly beyond L2's reach where it
/// matters, and multiply on wgmma. Of the 48 that were measured, 47 take less time together, most of them two thirds.
bool pair(const ConvPairProblem& problem, double cycles) {
  constexpr double starts = 10000, bytes_per_cycle = 1060, flops_per_cycle = 2e5, margin = 1.25;
  const ConvGeometry &a = problem.first.geometry, &b = problem.second.geometry;
  const double element = problem.between.defined() ? 1 : 2;
  const double bytes = element * static_cast<double>(a.input_size() + 2 * a.output_size() + b.output_size());
  return cycles < margin * (starts + bytes / bytes_per_cycle + a.flops() / flops_per_cycle);
}

}  // namespace lamina::cuda::preference
