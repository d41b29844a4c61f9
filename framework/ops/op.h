#pragma once

#include <optional>
#include <string>

#include "lamina/module/module.h"

namespace lamina {

/// A tensor that is part of the network: no inputs, one parameter, whose name in state dicts is the node's own.
class LAMINA_API Constant final : public Module {
 public:
  Constant(Shape shape, DType dtype) { add_parameter("", shape, dtype); }
  explicit Constant(Tensor value) : Constant(value.shape(), value.dtype()) { set_parameter("", std::move(value)); }

  const Tensor& value() const { return parameter(""); }

  /// Makes it an optional input of its graph (`Graph::optional_inputs`): a tensor of that shape, whose extents may be
  /// open, may be given in its place. Returns itself.
  Constant& offer(Shape input) { return input_ = input, *this; }
  const std::optional<Shape>& input() const { return input_; }

  std::string_view op() const override { return "Constant"; }
  Attributes attributes() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  DType output_dtype(std::span<const DType>) const override { return parameters()[0].dtype; }
  bool takes(const Preparation&) const override { return false; }
  std::unique_ptr<Operator> prepare(const Preparation&) const override;

 private:
  std::optional<Shape> input_;
};

/// An operation of docs/inside/ops.md, by its name and attributes: those of ONNX, in the meaning of its newest operator
/// set. What it is made of is decided when the network is compiled and the shapes and values of its operands are known:
/// the modules of framework/layers, and what framework/ops adds to them.
///
///   x = graph.add("act", lamina::Op("HardSwish"), x);
///   y = graph.add("mean", lamina::Op("ReduceMean", {{"keepdims", std::int64_t{0}}}), {x, axes});
class LAMINA_API Op final : public Module {
 public:
  /// Throws Error if there is no such op.
  explicit Op(std::string name, Attributes attributes = {});

  std::string_view op() const override { return name_; }
  Attributes attributes() const override;
  /// Not known before the network is compiled.
  Shape output_shape(std::span<const Shape> inputs) const override;
  bool takes(const Preparation&) const override { return false; }
  std::unique_ptr<Operator> prepare(const Preparation&) const override;

 private:
  std::string name_;
  Attributes attributes_;
};

}  // namespace lamina
