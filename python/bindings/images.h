#pragma once

#include <nanobind/nanobind.h>

namespace lamina::python {

/// Photographs and how they become inputs.
void bind_images(nanobind::module_& m);

}  // namespace lamina::python
