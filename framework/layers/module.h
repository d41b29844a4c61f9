#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/kernel/operator.h"
#include "lamina/layers/attributes.h"
#include "lamina/tensor/tensor.h"

namespace lamina {

/// One layer: what it computes, its parameters, the shapes it takes. How it is computed is decided by `prepare`,
/// for one device and one input shape.
class LAMINA_API Module {
 public:
  /// A parameter as state dicts know it. `value` is undefined until it is loaded.
  struct Parameter {
    std::string name;  ///< "weight", "bias"
    Shape shape;       ///< what `value` must have
    Tensor* value;     ///< f32 on the CPU
  };

  virtual ~Module() = default;

  /// The name of the operation in model files: "conv2d".
  virtual std::string_view op() const = 0;
  /// What model files store beside the parameters, and `summary` prints.
  virtual Attributes attributes() const { return {}; }
  virtual std::vector<Parameter> parameters() { return {}; }

  /// Throws Error, in the user's words, if these inputs do not fit. A batch of `lamina::batch` passes through.
  virtual Shape output_shape(std::span<const Shape> inputs) const = 0;
  /// Multiplications and additions of one run.
  virtual double flops(std::span<const Shape>) const { return 0; }

  /// The output is the input's elements under another shape: nothing is computed.
  virtual bool is_view(std::span<const Shape> /*inputs*/) const { return false; }
  /// Whether `prepare` has a kernel for these formats, this pool and this device; of a view, whether the output is in
  /// place. Everybody takes and gives f32 nchw. Cheap: a Plan asks for every combination before it settles on one.
  virtual bool takes(const Preparation& preparation) const {
    return preparation.input == Format{} && preparation.output == Format{} && !preparation.pool;
  }
  /// The output may be written over the input.
  virtual bool in_place() const { return false; }
  /// This module can apply a ReLU to its output for free.
  virtual bool fuses_relu() const { return false; }
  /// One module that computes `next` of this module's output, or null if there is none. Throws Error if a parameter
  /// was never set.
  virtual std::shared_ptr<Module> followed_by(const Module& /*next*/) const { return nullptr; }

  /// Makes this module ready to run. Throws Error if a parameter was never set. Not called for views.
  virtual std::unique_ptr<Operator> prepare(const Preparation& preparation) const = 0;

  /// Runs this module alone, on the device of its input, with default options. For one-off use:
  /// a Plan prepares once and runs many times.
  Tensor operator()(const Tensor& input) const;
  Tensor forward(std::span<const Tensor> inputs) const;
};

}  // namespace lamina
