#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lamina/files/torch/pickle.h"

namespace lamina::detail {

/// Reads the pickle that begins at `bytes`; something may follow it. `path` is for messages.
///
/// A pickle is a program for a small stack machine. This one builds a description of data and calls nothing: a function
/// that Python would call, a class that it would make an object of, whichever it is, becomes a note (PickleCall) with
/// its arguments, and what Python would set of such an object is dropped. Opcodes that no checkpoint needs end it with
/// an Error, and so do the names of what runs programs (os.system, builtins.eval). Containers are built from what is on
/// the stack, without recursion, so nesting costs no call stack. Also throws Error for truncated and malformed pickles,
/// and for those that make more values than any checkpoint needs.
Pickle unpickle(std::span<const std::byte> bytes, const std::string& path);

}  // namespace lamina::detail
