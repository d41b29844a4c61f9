#pragma once

#include <nanobind/nanobind.h>

#include "lamina/graph/graph.h"

namespace lamina::python {

/// Graphs: built in Python, and what is done with those of files.
void bind_graph(nanobind::module_& m);

/// The parameters out of a path, which `options` are for, or a dict of arrays.
Weights weights_from(nanobind::handle source, const OpenOptions& options);

}  // namespace lamina::python
