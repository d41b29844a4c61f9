// Sums of two convolutions, such as the blocks of a ResNet in which the shortcut is one: one operation computes both,
// where a kernel does, and the shortcut's map is neither written nor read.

#include <algorithm>
#include <optional>

#include "lamina/compile/program.h"
#include "lamina/kernel/conv_sum.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/fixed.h"

namespace lamina::detail {
namespace {

constexpr int none = -1;

class Summer {
 public:
  Summer(Program& program, const CompileOptions& options)
      : program_(program),
        options_(options),
        readers_(program.values.size(), 0),
        producer_(program.values.size(), none) {
    for (std::size_t i = 0; i < program_.operations.size(); ++i) {
      const Operation& op = program_.operations[i];
      producer_[index(op.output)] = static_cast<int>(i);
      for (const int input : op.inputs) ++readers_[index(input)];
    }
    for (const int output : program_.outputs) ++readers_[index(output)];
  }

  void sum() {
    for (Operation& op : program_.operations) {
      if (Operation* const other = summand(op)) join(op, *other);
    }
    std::erase_if(program_.operations, [](const Operation& op) { return op.module == nullptr; });
  }

 private:
  using Operation = Program::Operation;

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  const Shape& shape(int value) const { return program_.value(value).shape; }

  /// What a convolution solves; nothing if the operation is none, or of scaled channels, or not known yet.
  std::optional<ConvProblem> convolution(const Operation& op) const {
    const auto* conv = dynamic_cast<const Conv2d*>(op.module.get());
    if (conv == nullptr || op.view || !conv->weight().defined()) return std::nullopt;
    if (conv->options().bias && !conv->bias().defined()) return std::nullopt;
    std::vector<Shape> inputs;
    for (const int input : op.inputs) inputs.push_back(shape(input));
    ConvProblem problem = conv->problem(inputs);
    if (problem.scaled || problem.epilogue.pool) return std::nullopt;
    return problem;
  }

  /// The convolution whose result another convolution begins its epilogue with, if nobody else reads it.
  Operation* summand(const Operation& op) {
    const auto problem = op.inputs.size() == 2 ? convolution(op) : std::nullopt;
    if (!problem || problem->epilogue.chain.empty() || !problem->epilogue.is_residual()) return nullptr;
    if (problem->epilogue.chain[0].operand != 1 || readers_[index(op.inputs[1])] != 1) return nullptr;
    const int at = producer_[index(op.inputs[1])];
    if (at == none) return nullptr;
    Operation& other = program_.operations[index(at)];
    const auto plain = other.module != nullptr && other.inputs.size() == 1 ? convolution(other) : std::nullopt;
    return plain && plain->epilogue.chain.empty() ? &other : nullptr;
  }

  static bool is_of_pixels(const ConvGeometry& g) {
    return g.groups == 1 && g.kernel_height == 1 && g.kernel_width == 1 && g.padding_height == 0 &&
           g.padding_width == 0;
  }

  static Tensor sum_of(const Tensor& a, const Tensor& b) {
    if (!a.defined() || !b.defined()) return a.defined() ? a : b;
    Tensor result = a.clone();
    std::ranges::transform(a.values<float>(), b.values<float>(), result.values<float>().begin(), std::plus());
    return result;
  }

  void join(Operation& op, Operation& other) {
    ConvProblem a = *convolution(op), b = *convolution(other);
    Epilogue epilogue = a.epilogue;
    epilogue.chain.erase(epilogue.chain.begin());
    Operation longer = op;
    longer.inputs = {op.inputs[0], other.inputs[0]};
    if (!is_of_pixels(b.geometry)) std::swap(a, b), std::swap(longer.inputs[0], longer.inputs[1]);
    if (!is_of_pixels(b.geometry)) return;
    ConvSumProblem problem = {.first = a, .second = b.geometry, .second_weight = b.weight};
    problem.first.epilogue = epilogue;
    problem.first.bias = sum_of(a.bias, b.bias);
    longer.module = std::make_shared<Fixed<ConvSumProblem>>(problem, shape(op.output), DType::f32);
    longer.fused += (longer.fused.empty() ? "" : ", ") + other.name;
    if (!runs(longer)) return;
    other.module = nullptr;
    op = std::move(longer);
  }

  /// Whether there is a kernel for the operation in some formats.
  bool runs(const Operation& op) const {
    PreparedViews views(program_, op, options_);
    for (const Format input : formats(program_.value(op.inputs[0]), options_)) {
      for (const Format output : formats(program_.value(op.output), options_)) {
        if (op.module->takes(views.with(input, output))) return true;
      }
    }
    return false;
  }

  Program& program_;
  const CompileOptions& options_;
  std::vector<int> readers_, producer_;  // by value
};

}  // namespace

void sum_convolutions(Program& program, const CompileOptions& options) { Summer(program, options).sum(); }

}  // namespace lamina::detail
