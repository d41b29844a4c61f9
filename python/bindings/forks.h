#pragma once

namespace lamina::python {

/// How many forks lie between the process that imported lamina and this one.
unsigned fork_generation();

}  // namespace lamina::python
