#include "lamina/layers/linear.h"

#include "lamina/base/in_parallel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/epilogue_rules.h"
#include "lamina/layers/absorption.h"
#include "lamina/layers/views.h"
#include "lamina/module/checks.h"

namespace lamina {
namespace {

using detail::fail;
using detail::floats;

/// Weights [out, C * H * W] with their columns in the order H, W, C.
Tensor channels_last(const Tensor& weight, const Shape& image) {
  const std::int64_t channels = image[1], pixels = image[2] * image[3];
  Tensor result(weight.shape());
  const auto reorder_rows = [&](std::size_t begin, std::size_t end) {
    const std::int64_t skipped = static_cast<std::int64_t>(begin) * channels * pixels;
    const float* from = floats(weight) + skipped;
    float* to = floats(result) + skipped;
    for (std::size_t row = begin; row < end; ++row, from += channels * pixels) {
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
        for (std::int64_t channel = 0; channel < channels; ++channel) *to++ = from[channel * pixels + pixel];
      }
    }
  };
  detail::in_parallel(static_cast<std::size_t>(weight.shape()[0]), 64, reorder_rows);
  return result;
}

/// An image that is read in the order in which it is stored, as a row.
struct FlatInput {
  View row;
  std::vector<View> operands;
  Preparation preparation;

  explicit FlatInput(const Preparation& p) : row(p.input()), preparation(p) {
    row.shape = Flatten().output_shape({&row.shape, 1});
    row.format.layout = Layout::nchw;
    operands.assign(p.inputs.begin(), p.inputs.end());
    operands[0] = row;
    preparation.inputs = operands;
  }
};

}  // namespace

Linear::Linear(const LinearOptions& options) : options_(options) {
  if (options_.in < 1 || options_.out < 1) {
    fail("linear: expected 1 or more features, got ", options_.in, " in and ", options_.out, " out");
  }
  add_parameter("weight", {options_.out, options_.in});
  if (options_.bias) add_parameter("bias", {options_.out});
}

Shape Linear::output_shape(std::span<const Shape> inputs) const {
  if (static_cast<int>(inputs.size()) != inputs_of(chain_)) {
    fail(op(), ": expected ", inputs_of(chain_), inputs_of(chain_) == 1 ? " input" : " inputs", ", got ",
         inputs.size());
  }
  const Shape input = flattens_ ? Flatten().output_shape(inputs.first(1)) : inputs[0];
  if (input.rank() < 2) fail("linear: expected input [N, ..., in], got ", input);
  if (input[-1] != options_.in) {
    fail("linear: expected ", options_.in, " input features, got ", input[-1], " (input ", input, ')');
  }
  Shape output = input;
  output.set(-1, options_.out);
  return output;
}

DType Linear::output_dtype(std::span<const DType> inputs) const {
  return eight_.whole ? DType::i32 : Module::output_dtype(inputs);
}

double Linear::flops(std::span<const Shape> inputs) const {
  const double rows = static_cast<double>(inputs[0].with_batch(1).numel()) / options_.in;
  return 2.0 * rows * options_.in * options_.out;
}

std::shared_ptr<const Linear> Linear::after_flatten() const {
  auto longer = std::make_shared<Linear>(*this);
  longer->flattens_ = true;
  return longer;
}

Module::Absorbed Linear::absorb(const Module& next, std::span<const Operand> operands) const {
  if (eight_.whole) return {};
  if (const auto factors = detail::per_channel(next, operands, options_.out, 0); factors && chain_.empty()) {
    if (auto folded = scaled(*factors)) return {.module = std::move(folded), .parameters = true};
  }
  auto longer = std::make_shared<Linear>(*this);
  if (!detail::append(longer->chain_, next, operands)) return {};
  return {.module = std::move(longer)};
}

/// With the factors in the weights and in the bias; null if those are not set.
std::shared_ptr<const Linear> Linear::scaled(const detail::PerChannel& factors) const {
  if (!weight().defined() || (options_.bias && !bias().defined())) return nullptr;
  EightBitWeights eight = eight_;
  if (eight.defined() && !detail::scale_codes(eight, factors.scale)) return nullptr;
  const Tensor weight = factors.scale.empty() ? this->weight() : detail::scaled_rows(this->weight(), factors.scale);
  if (!weight.defined()) return nullptr;
  LinearOptions options = options_;
  options.bias = options_.bias || !factors.shift.empty();
  auto folded = std::make_shared<Linear>(options);
  folded->flattens_ = flattens_, folded->eight_ = std::move(eight);
  folded->set_weight(weight);
  if (options.bias) folded->set_bias(detail::scaled_and_shifted(bias(), factors));
  return folded;
}

LinearProblem Linear::problem(std::span<const Shape> inputs) const {
  return {.rows = inputs[0].numel() / options_.in,
          .in = options_.in,
          .out = options_.out,
          .weight = weight(),
          .bias = bias(),
          .epilogue = {.chain = chain_},
          .eight = eight_};
}

/// On a GPU the weights are copied, and may be put in the order of any layout. On the CPU plans share the module's:
/// better to turn the image.
bool Linear::pays(const Preparation& preparation) const {
  if (!detail::operands_fit(preparation)) return false;
  if (!flattens_) return Layer::pays(preparation);
  const View& image = preparation.input();
  const bool in_order = detail::same_order(image.shape, image.format.layout, Layout::nchw);
  if (preparation.device.device.is_cpu() && !in_order) return false;
  return Layer::pays(FlatInput(preparation).preparation);
}

std::unique_ptr<Operator> Linear::prepare(const Preparation& preparation) const {
  if (!flattens_) return Layer::prepare(preparation);
  const View& image = preparation.input();
  const FlatInput flat(preparation);
  if (detail::same_order(image.shape, image.format.layout, Layout::nchw)) return Layer::prepare(flat.preparation);
  require_parameters();
  Linear reordered = *this;
  reordered.set_weight(channels_last(weight(), image.shape));
  return reordered.Layer::prepare(flat.preparation);
}

}  // namespace lamina
