#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/module/node_spec.h"

namespace lamina::detail {

/// Builds the module that a model file calls `op`. Throws Error for an unknown op, attribute or missing parameter;
/// `known` are names that it could have meant besides.
std::shared_ptr<Module> make_module(std::string_view op, const NodeSpec& spec, std::vector<std::string> known = {});

/// What `make_module` knows but for rows that were added.
std::vector<std::string> known_ops();
/// Whether `make_module` knows it.
bool knows_op(std::string_view op);

/// Adds a row to those that `make_module` knows; false if another was added with that name. From any thread.
bool add_row(const std::string& op, MakeModule make);

}  // namespace lamina::detail
