#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <string_view>

#include "lamina/module/module.h"

namespace lamina::python {

namespace nb = nanobind;

/// An array's elements in memory of Lamina's own.
Tensor copy_of(nb::handle array, std::string_view what);

/// A module as a model file would say it: by its op, attributes and parameters. Of a parameter whose value is loaded
/// later the shape is given in its place.
std::shared_ptr<Module> module_from(const std::string& op, const nb::kwargs& given);

}  // namespace lamina::python
