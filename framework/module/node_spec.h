#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "lamina/base/function.h"
#include "lamina/module/module.h"

namespace lamina {

/// The parts of a model file's node that are needed to build its module.
struct NodeSpec {
  const Attributes& attributes;  ///< to be read by an AttributeReader
  /// The node's parameter of that name ("weight") in the file, or nothing.
  Function<std::optional<Tensor>(std::string_view)> parameter;

  std::optional<Shape> parameter_shape(std::string_view name) const {
    const std::optional<Tensor> found = parameter(name);
    return found ? std::optional(found->shape()) : std::nullopt;
  }
};

/// Builds the module, without setting its parameters: loading does. Throws Error for attributes that it does not know
/// and parameters that are missing.
using MakeModule = Function<std::shared_ptr<Module>(const NodeSpec& node)>;

}  // namespace lamina
