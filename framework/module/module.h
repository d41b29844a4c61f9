#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/kernel/operator.h"
#include "lamina/module/attributes.h"
#include "lamina/tensor/tensor.h"

namespace lamina {

/// One layer: what it computes, its parameters, the shapes it takes. How it is computed is decided by `prepare`,
/// for one device and one input shape.
class LAMINA_API Module {
 public:
  /// A parameter as state dicts know it.
  struct Parameter {
    std::string name;  ///< "weight", "bias"
    Shape shape;       ///< what `value` must have
    Tensor value;      ///< on the CPU; undefined until it is set or loaded
    DType dtype = DType::f32;
  };

  virtual ~Module() = default;

  /// The name of the operation in model files: "conv2d".
  virtual std::string_view op() const = 0;
  /// What model files store beside the parameters, and `summary` prints.
  virtual Attributes attributes() const;

  std::span<const Parameter> parameters() const { return parameters_; }
  /// Throws Error if there is no such parameter, or unless the value is on the CPU, of its dtype and shape.
  void set_parameter(std::string_view name, Tensor value);

  /// Throws Error, in the user's words, if these inputs do not fit. A batch of `lamina::batch` passes through.
  virtual Shape output_shape(std::span<const Shape> inputs) const = 0;
  /// The type of the output's elements. f32 stands for the type in which the Plan's precision stores values. Throws
  /// Error if the module does not compute with inputs of these types; most modules compute with f32 alone.
  virtual DType output_dtype(std::span<const DType> inputs) const;
  /// Multiplications and additions of one run.
  virtual double flops(std::span<const Shape>) const { return 0; }

  /// The output is the input's elements under another shape: nothing is computed.
  virtual bool is_view(std::span<const Shape> /*inputs*/) const { return false; }
  /// Whether, in these formats, the output's memory is the input's as it is. In other formats something may have to be
  /// computed.
  virtual bool keeps_order(const Preparation& /*preparation*/) const { return false; }
  /// Bytes that the module moves in these formats besides its operands and its result. A Plan compares them with the
  /// cost of conversions.
  virtual std::size_t extra_bytes(const Preparation& /*preparation*/) const { return 0; }
  /// The number of the input whose memory the output may overwrite; -1: there is none.
  virtual int in_place(const Preparation& /*preparation*/) const { return -1; }

  /// An input of the following module, as an input of both modules joined into one.
  struct Operand {
    static constexpr int own = -1;
    int input = own;       ///< its number among the inputs of both, the first module's in front; own: what that gives
    Tensor constant = {};  ///< its elements, if they are the same in every run; else undefined
  };
  struct Absorbed {
    std::shared_ptr<const Module> module = {};  ///< the joined module; null: there is none
    bool parameters = false;                    ///< the operands have become parameters, and are no inputs
  };
  /// The one module that does what this module and then `next` do. `operands`: the inputs of `next`, in order; one of
  /// them is this module's output. Whether the joined module is worth it, its own `pays` says. Throws Error if a
  /// parameter was never set.
  virtual Absorbed absorb(const Module& /*next*/, std::span<const Operand> /*operands*/) const { return {}; }
  /// The same where `next` has no other input.
  std::shared_ptr<const Module> absorb(const Module& next) const {
    const Operand own;
    return absorb(next, {&own, 1}).module;
  }

  /// Whether `takes` and `prepare` look at gaps in Views: at slices of the channels of a larger image (View::channels),
  /// and at elements that lie apart (View::strides). A module that does not say so is given whole activations alone,
  /// whatever its `takes` answers.
  virtual bool knows_gaps() const { return false; }
  /// Whether `prepare` has a kernel for these formats and this device, as Kernel::takes: right or wrong, nothing about
  /// speed; of a view, whether the output is in place. f32 nchw is always taken. What has no kernel on a GPU, and one
  /// on a CPU, a Plan computes on the host.
  virtual bool takes(const Preparation& preparation) const = 0;
  /// Whether it has one that is also worth it, as Kernel::pays: a Plan settles on formats, and puts this module in the
  /// place of others, for nothing less. Cheap: a Plan asks for every combination of formats.
  virtual bool pays(const Preparation& preparation) const { return takes(preparation); }
  /// Makes this module ready to run. Throws Error if a parameter was never set, or if nothing takes what is asked for.
  /// Not called for views.
  virtual std::unique_ptr<Operator> prepare(const Preparation& preparation) const = 0;

  /// Runs this module alone, on the device of its input, with default options. For one-off use:
  /// a Plan prepares once and runs many times.
  Tensor operator()(const Tensor& input) const;
  Tensor forward(std::span<const Tensor> inputs) const;

 protected:
  /// To be called by constructors, in the order in which `parameters` lists them.
  void add_parameter(std::string name, Shape shape, DType dtype = DType::f32) {
    parameters_.push_back({std::move(name), shape, {}, dtype});
  }
  /// The value of a parameter; undefined if it was not set, or if there is none of that name.
  const Tensor& parameter(std::string_view name) const;
  /// Throws Error naming the first parameter that was never set.
  void require_parameters() const;

 private:
  std::vector<Parameter> parameters_;
};

}  // namespace lamina
