#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "lamina/layers/module.h"

namespace lamina::detail {

/// What a model file says of one node: enough to build its module.
struct NodeSpec {
  const Attributes& attributes;
  /// The node's parameter of that name ("weight") in the file, or nothing.
  std::function<std::optional<Tensor>(std::string_view)> parameter;

  std::optional<Shape> parameter_shape(std::string_view name) const {
    const std::optional<Tensor> found = parameter(name);
    return found ? std::optional(found->shape()) : std::nullopt;
  }
};

/// Builds the module that a model file calls `op`. Throws Error for an unknown op, attribute or missing parameter.
std::shared_ptr<Module> make_module(std::string_view op, const NodeSpec& spec);

}  // namespace lamina::detail
