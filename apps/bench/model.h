#pragma once

#include <CLI/CLI.hpp>

namespace lamina::app {

/// Adds `lamina bench model`.
void add_bench_model(CLI::App& group);

}  // namespace lamina::app
