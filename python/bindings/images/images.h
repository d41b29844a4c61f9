#pragma once

#include <nanobind/nanobind.h>

namespace lamina::python {

/// Photographs and how they become inputs.
void bind_images(nanobind::module_& m);

/// Has the library read by Pillow what this build has no library for.
void read_by_pillow();

}  // namespace lamina::python
