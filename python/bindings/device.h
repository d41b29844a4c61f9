#pragma once

#include <nanobind/nanobind.h>

namespace lamina::python {

/// Devices, and what the choice of a kernel knows of them.
void bind_device(nanobind::module_& m);

}  // namespace lamina::python
