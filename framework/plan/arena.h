#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lamina::detail {

/// A buffer that is alive from step `first` to step `last`, both included.
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct Arena {
  std::vector<std::size_t> offsets;  ///< one for each buffer, multiples of `arena_alignment`
  std::size_t bytes = 0;
};

/// What every kernel may assume of an activation's address.
inline constexpr std::size_t arena_alignment = 256;

/// What a Plan promises of the addresses of its inputs and outputs on a GPU: a caller's tensor that begins elsewhere is
/// copied.
inline constexpr std::size_t port_alignment = 16;

/// Places buffers so that those alive at the same time never overlap. Largest first, each into the lowest gap that
/// holds it: "Greedy by Size" of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020.
/// Throws Error if all together are more bytes than 64 bits can count.
Arena plan_arena(std::span<const Lifetime> buffers);

}  // namespace lamina::detail
