#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lamina/graph/graph.h"
#include "lamina/module/module.h"

namespace lamina::python {

namespace nb = nanobind;

/// An array's elements in memory of Lamina's own.
Tensor copy_of(nb::handle array, std::string_view what);

/// What a value is for two images and for three, and for two sizes of open extents; nothing where only compiling tells.
struct Trial {
  struct Port {
    Shape shape;
    DType dtype;
  };
  std::array<std::optional<Port>, 2> ports;
  std::shared_ptr<Module> constant;
};

/// Of an input with that shape.
Trial trial_of(const Shape& declared, DType dtype);

/// Of a node with those operands; a pointer to nothing is one that is left out. Throws Error of an Op that fits neither
/// trial, for the same reason: the number of images and open extents have no part in it.
Trial trial_of(const std::string& name, const std::shared_ptr<Module>& module, std::span<const Trial* const> operands);

/// A module as a model file would say it: by its op, attributes and parameters. Of a parameter whose value is loaded
/// later the shape is given in its place.
std::shared_ptr<Module> module_from(const std::string& op, const nb::kwargs& given);

}  // namespace lamina::python
