#pragma once

#include <nanobind/nanobind.h>

#include "lamina/graph/graph.h"

namespace lamina::python {

/// Graphs: built in Python, and what is done with those of files.
void bind_graph(nanobind::module_& m);

}  // namespace lamina::python
