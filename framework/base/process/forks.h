#pragma once

namespace lamina::detail {

/// How many forks lie between the process that first asked and this one. Threads, and locks that they held, stay with
/// the parent: what has threads remembers the number that it was made at.
unsigned fork_generation();

}  // namespace lamina::detail
