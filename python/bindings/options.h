#pragma once

#include <nanobind/nanobind.h>

#include "lamina/images/preprocess.h"
#include "lamina/plan/plan.h"

namespace lamina::python {

namespace nb = nanobind;

/// The options of a compilation from keyword arguments: the fields of CompileOptions by their names, the device that of
/// the description, or "auto", if it is not given. `preprocess`, which may be null, is what photos=True means. Throws
/// Error naming the fields there are for one that is not, TypeError for a value of another type.
CompileOptions options_from(const nb::kwargs& fields, const Preprocess* preprocess);

/// A tuple or list of extents; "N" is the batch and "?" one that is left open.
Shape shape_from(nb::handle extents);

}  // namespace lamina::python
