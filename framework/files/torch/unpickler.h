#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lamina/files/torch/pickle.h"

namespace lamina::detail {

/// Reads the pickle that begins at `bytes`; something may follow it. `path` is for messages.
///
/// A pickle is a program for a small stack machine. This one builds a description of data and calls nothing: every
/// opcode that a state dict does not need ends it with an Error, and so does any global but collections.OrderedDict,
/// torch._utils._rebuild_tensor, _rebuild_tensor_v2 and _rebuild_parameter, torch.*Storage and argparse.Namespace.
/// Containers are built from what is on the stack, without recursion, so nesting costs no call stack. Also throws Error
/// for truncated and malformed pickles, and for those that make more values than any checkpoint needs.
Pickle unpickle(std::span<const std::byte> bytes, const std::string& path);

}  // namespace lamina::detail
