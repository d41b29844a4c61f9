#pragma once

#include <nanobind/nanobind.h>

namespace lamina::python {

/// Photographs and how they become inputs.
void bind_images(nanobind::module_& m);

/// Has the library read by Pillow what this build has no library for; or `all` that Pillow can, as a wheel does.
void read_by_pillow(bool all);

}  // namespace lamina::python
