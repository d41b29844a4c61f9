#pragma once

#include <nanobind/nanobind.h>

namespace lamina::python {

/// Plans of several devices behind one queue. `error` is lamina.Error.
void bind_pool(nanobind::module_& m);

}  // namespace lamina::python
