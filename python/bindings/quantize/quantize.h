#pragma once

#include <nanobind/nanobind.h>

namespace lamina::python {

/// What is behind lamina.quantize.
void bind_quantize(nanobind::module_& m);

}  // namespace lamina::python
