// Squeeze and excitation: the means of an image's channels, two layers on them, and the image times the result. They
// become one operation where a kernel does all of it. Where the image is multiplied by a convolution as it reads it
// (one of codes is made to do so here) or by other functions, the operation gives the factors alone. So does that of a
// global response norm: the roots of the sums of the channels' squares, and a norm of them.

#include <algorithm>

#include "lamina/compile/dataflow.h"
#include "lamina/compile/program.h"
#include "lamina/kernel/squeeze_excite.h"
#include "lamina/layers/fixed.h"

namespace lamina::detail {
namespace {

class Gates : Dataflow {
 public:
  using Dataflow::Dataflow;

  void find() {
    for (Operation& op : program_.operations) {
      if (multiplies(op)) {
        if (!join_product(op, 0)) join_product(op, 1);
      } else if (const int factors = scales(op); factors != none) {
        join_factors(op.inputs[0], factors);
      }
    }
    finish();
  }

 private:
  bool multiplies(const Operation& op) const {
    const auto product = op.view || op.inputs.size() != 2 ? std::nullopt : problem_of<PointwiseProblem>(op);
    return product && product->chain == PointwiseChain{{.function = Pointwise::mul, .operand = 1}};
  }

  /// The value whose numbers an operation multiplies the channels of its first input by, before it does anything else.
  int scales(const Operation& op) const {
    if (const auto conv = solved_by<ConvProblem>(&op)) return conv->scaled() ? op.inputs[1] : none;
    const auto functions = op.inputs.size() < 2 ? std::nullopt : solved_by<PointwiseProblem>(&op);
    const bool product = functions && !functions->chain.empty() &&
                         functions->chain[0] == PointwiseStep{.function = Pointwise::mul, .operand = 1};
    return product ? op.inputs[1] : none;
  }

  /// The problem of a convolution of images of one pixel, of codes or not.
  std::optional<ConvProblem> of_a_pixel(const Operation* op, bool codes) const {
    const auto problem = op == nullptr ? std::nullopt : codes ? of_codes(*op) : convolution(*op, 1);
    if (!problem) return std::nullopt;
    const ConvGeometry& g = problem->geometry;
    const bool one = g.in_pixels() == 1 && g.out_pixels() == 1 && g.kernel_height == 1 && g.kernel_width == 1;
    return one ? problem : std::nullopt;
  }

  bool is_mean(const Operation* op) const {
    const auto pool = solved_by<PoolProblem>(op);
    return pool && pool->kind == PoolKind::adaptive && pool->geometry.out_pixels() == 1;
  }

  /// Whether an operation takes the first channels of images of one pixel.
  bool reads_first_channels(const Operation& op) const {
    const auto move = move_of(&op);
    if (!move || shape(op.inputs[0]).rank() != 4 || shape(op.output).rank() != 4) return false;
    const std::int64_t images = shape(op.output)[0], channels = shape(op.output)[1], apart = shape(op.inputs[0])[1];
    if (shape(op.output).numel() != images * channels || shape(op.inputs[0]).numel() != images * apart) return false;
    return std::ranges::all_of(move->axes, [&](const MoveProblem::Axis& axis) {
      const bool of_images = axis.extent == images && axis.stride == apart,
                 of_channels = axis.extent == channels && axis.stride == 1;
      return axis.offsets.empty() && (axis.extent == 1 || of_images || of_channels);
    });
  }

  /// The operations that make a value of an image, from the image's reduction on.
  struct Gate {
    std::vector<Operation*> parts;
    SqueezeExciteProblem problem;
  };

  std::optional<Gate> gate_of(int image, int factors) {
    if (const auto response = response_of(image, factors)) return response;
    const bool codes = is_coded(image);
    const auto stored = [&](int value) { return program_.value(value).quantization; };
    const auto alone_for = [&](int value) {
      const bool alike = program_.value(value).format.dtype == program_.value(image).format.dtype;
      return alike && is_coded(value) == codes ? only_computes(value) : nullptr;
    };
    Operation* const second = alone_for(factors);
    const auto excite = of_a_pixel(second, codes);
    Operation* const first = excite ? alone_for(second->inputs[0]) : nullptr;
    const auto squeeze = of_a_pixel(first, codes);
    Operation* mean = squeeze ? alone_for(first->inputs[0]) : nullptr;
    std::vector<Operation*> parts = {first, second};
    if (mean != nullptr && reads_first_channels(*mean)) {
      parts.insert(parts.begin(), mean);
      mean = alone_for(mean->inputs[0]);
    }
    if (!is_mean(mean) || mean->inputs[0] != image) return std::nullopt;
    SqueezeExciteProblem problem = {*squeeze, *excite};
    problem.means = stored(first->inputs[0]), problem.between = stored(second->inputs[0]);
    problem.factors = stored(factors);
    parts.insert(parts.begin(), mean);
    return Gate{std::move(parts), std::move(problem)};
  }

  /// A norm of the roots of the sums of the squares of the channels.
  std::optional<Gate> response_of(int image, int factors) {
    Operation* const second = only_for(factors);
    const auto norm = solved_by<NormProblem>(second);
    Operation* const first = norm ? only_for(second->inputs[0]) : nullptr;
    const auto roots = solved_by<ReduceProblem>(first);
    const unsigned pixels = 1u << 2 | 1u << 3;
    if (!roots || roots->kind != Reduction::l2 || roots->dims != pixels || first->inputs[0] != image ||
        shape(factors).rank() != 4)
      return std::nullopt;
    return Gate{{first, second}, {.norm = norm}};
  }

  bool join_product(Operation& op, std::size_t factors) {
    const int image = op.inputs[1 - factors];
    auto gate = gate_of(image, op.inputs[factors]);
    if (!gate || shape(image) != shape(op.output)) return false;
    return join_reader(op, image, *gate) || join(op, {image}, gate->problem, gate->parts);
  }

  /// If only a convolution reads a product of codes, the product is not computed: the convolution reads the factors
  /// instead.
  bool join_reader(Operation& op, int image, const Gate& gate) {
    const bool one = is_coded(op.output) && readers(op.output).size() == 1 && !is_output(op.output);
    Operation* const conv = one ? &operation(*readers(op.output).begin()) : nullptr;
    auto reads = solved_by<ConvProblem>(conv);
    if (!reads || !reads->eight.defined() || reads->scaled() || conv->inputs[0] != op.output) return false;
    Program::Value& value = program_.value(op.output);
    const Program::Value product = value;
    if (product.format.dtype != program_.value(image).format.dtype) return false;
    value.shape = {product.shape[0], product.shape[1], 1, 1}, value.format = {}, value.quantization = {};
    reads->prologue = {{.function = Pointwise::mul, .operand = 1},
                       to_codes(product.format.dtype, product.quantization)};
    for (PointwiseStep& step : reads->epilogue.chain) step.operand += step.operand > 0;
    Operation longer = *conv;
    longer.inputs[0] = image, longer.inputs.insert(longer.inputs.begin() + 1, op.output);
    longer.module = std::make_shared<Fixed<ConvProblem>>(*std::move(reads), shape(conv->output), DType::f32);
    SqueezeExciteProblem factors = gate.problem;
    factors.multiplies = false, factors.product = product.quantization;
    if (has_paying_kernel(longer) && join(op, {image}, std::move(factors), gate.parts)) {
      replace(*conv, std::move(longer));
      return true;
    }
    value = product;
    return false;
  }

  void join_factors(int image, int factors) {
    auto gate = gate_of(image, factors);
    if (!gate) return;
    gate->problem.multiplies = false;
    Operation& last = *gate->parts.back();
    gate->parts.pop_back();
    join(last, {image}, gate->problem, gate->parts);
  }
};

}  // namespace

void find_gates(Program& program, const CompileOptions& options) { Gates(program, options).find(); }

}  // namespace lamina::detail
