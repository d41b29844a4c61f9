#pragma once

#include <nanobind/nanobind.h>

namespace lamina::python {

/// Detectors: what is behind lamina.Detector.
void bind_detect(nanobind::module_& m);

}  // namespace lamina::python
