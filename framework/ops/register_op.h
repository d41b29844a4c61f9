#pragma once

#include <string>

#include "lamina/module/node_spec.h"

namespace lamina {

/// From here on model files may name `op`: `load_model` and `Graph::load` call `make` for each of their nodes of that
/// name. A module whose `op()` that is can then be loaded as it was saved. Its shapes, kernels and parameters are the
/// module's own; docs/custom_layers.md has all of it.
///
///   lamina::register_op("mine.shrink", [](const lamina::NodeSpec& node) {
///     lamina::AttributeReader attributes(node.attributes);
///     const double by = attributes.number("by", 1);
///     attributes.finish();
///     return std::make_shared<Shrink>(by);
///   });
///
/// The dot in the name keeps it apart from Lamina's own. Any thread may call this, also while others load;
/// what `make` refers to must last as long as the program, and threads that load at once call it at once. Throws Error
/// if the name has no dot, or is taken by an earlier call.
LAMINA_API void register_op(std::string op, MakeModule make);

}  // namespace lamina
