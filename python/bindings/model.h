#pragma once

#include <nanobind/nanobind.h>

namespace lamina::python {

/// Model files, the ready-made networks, and classes out of scores.
void bind_model(nanobind::module_& m);

}  // namespace lamina::python
