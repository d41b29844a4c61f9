#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"
#include "lamina/kernel/rules/epilogue_rules.h"

/// Numbers of u8 and i8 that stand for others: what of them is the same on every device (docs/inside/precision.md).
namespace lamina::detail {

/// u8 or i8 that stands for something.
inline bool is_code(const View& view) {
  return view.quantization.defined() && (view.format.dtype == DType::u8 || view.format.dtype == DType::i8);
}

/// The channels of each pixel of an image lie side by side.
inline bool is_channels_last(const View& view) {
  return view.format.layout == Layout::nhwc ||
         (!view.is_slice() && same_order(view.shape, view.format.layout, Layout::nhwc));
}

/// What the codes of each byte stand for.
std::vector<float> numbers_of(DType type, const Quantization& codes);

/// clamp(round(value / scale) + zero_point), NaN to the lowest.
std::int32_t code_of(float value, const Quantization& codes, DType type);

/// The steps behind a sum of codes that kernels know, each of which may be missing: the sum becomes codes; to what
/// those stand for an operand is added, or it is multiplied by one; that is clamped; it becomes codes again; those are
/// looked up. What the last step leaves is stored as the output is: as its codes, or as the number.
struct CodeSteps {
  const PointwiseStep *own = nullptr, *operand = nullptr, *again = nullptr;
  Bounds bounds = {};
  std::shared_ptr<const CodeTable> table = {};
};
/// Nothing of another chain. The steps are the chain's.
std::optional<CodeSteps> code_steps(const PointwiseChain& chain);

/// Input 0 as it is multiplied, behind the prologue; the output as sums are rounded first, by the epilogue.
View multiplied(const ConvProblem& problem, const Preparation& preparation);
View rounded_first(const ConvProblem& problem, const Preparation& preparation);

/// Gives weights a bias of i32 in units of the input's scale times theirs, each rounded once.
void set_bias(EightBitWeights& eight, const Tensor& bias, float input_scale);
/// The same with a bias of f32, if that is whole in these units up to the roundings of the products that it came from;
/// else false, and nothing is changed.
bool set_whole_bias(EightBitWeights& eight, const Tensor& bias, float input_scale);

/// What becomes of a sum of products.
struct SumsEnd {
  DType type = DType::u8;          ///< of the output: u8, i8, i32, f32, f16 or bf16
  bool codes = false;              ///< q = round(sum * factor) + zero_point; else y = sum * factor + bias, stored as it
                                   ///< is or as round(y / scale) + zero_point; but if
  bool read = false;               ///< y = round(sum * factor) * scale, what codes stand for
  Quantization quantization = {};  ///< of the output, or of those codes
  float low = 0, high = 0;         ///< y is not below and not above; of codes the same of q - zero_point
};

/// The same of a convolution's sums of (x - x_zero) (w - w_zero), by output channel.
struct ChannelEnd {
  SumsEnd end;
  std::vector<std::int32_t> bias;  ///< added to them
  std::vector<float> factor, float_bias;
};

/// Whether a convolution of codes has sums that fit i32, and its epilogue CodeSteps: what is multiplied in codes,
/// weights in eight bits; output in codes, or of an activation's type, perhaps what codes stand for, or the sums. What
/// is an operand has codes and the output's shape, or it is a number of f32 for each channel. Any layouts. Which of the
/// steps a kernel has it says by Kernel::reads.
bool is_eight_bits(const ConvProblem& problem, const Preparation& preparation);

/// Of a problem that is_eight_bits, what its sums become first. Where sums are of x w, a channel's bias is less `zero`
/// for each weight: x's zero point and whatever else x is larger by than the number that it is.
ChannelEnd channel_end(const ConvProblem& problem, const Preparation& preparation, std::int32_t zero = 0);

/// For the byte of each code of a factor a number g for which the product's codes are those of ConvProblem::prologue,
/// whatever x is: the formula's bits in two operations. |(x - zero point) g| stays below 2^14. Nothing if not all have
/// one: of random scales three gates in a thousand, where the formula's roundings take two halves of one slope apart.
std::optional<std::vector<float>> product_slopes(DType type, const Quantization& image, const Quantization& factors,
                                                 const Quantization& product);

/// Whether an operand of CodeSteps is codes, which are added: else it is numbers of the channels.
bool adds_codes(const CodeSteps& steps, const Preparation& preparation);

/// Where a convolution's codes are added to others, the output's code by its own code's byte and by the other's: 256
/// times 256.
std::vector<std::uint8_t> table_of_sums(const ConvProblem& problem, const Preparation& preparation);

/// The same of a fully connected layer, as the convolution that it is (prepare_by_convolution), whose rows lie in
/// order.
bool is_eight_bits(const LinearProblem& problem, const Preparation& preparation);

/// A function of nothing but the value and numbers.
inline bool is_alone(const PointwiseStep& step) { return step.operand < 0 && step.second < 0; }

/// Whether a chain of functions gives one of 256 codes for each code.
bool is_code_table(const PointwiseProblem& problem, const Preparation& preparation);

/// Of a problem that is_code_table: computed in f64, as the CPU's kernels have the functions. With `of`, of inputs each
/// of which is such a table of one code. Where a step has one of them as a further operand, each is rounded to f32.
CodeTable code_table(const PointwiseProblem& problem, const Preparation& preparation,
                     std::span<const CodeTable> of = {});

}  // namespace lamina::detail
