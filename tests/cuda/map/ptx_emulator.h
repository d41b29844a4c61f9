#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lamina/cuda/map/generate.h"

/// Runs a Map's kernel on the CPU, so that what is written for GPUs is tried where there is none.
namespace lamina::test {

/// Memory that a kernel may touch.
struct Range {
  void* data = nullptr;
  std::size_t bytes = 0;
  bool may_write = false;
};

/// Runs all blocks of a kernel, one after the other, the last first if `backwards`. Throws Error for an instruction
/// that it does not know, an access outside the ranges or not on its own alignment, a shuffle that a part of a warp
/// misses. The special functions are rounded as the C library rounds them; everything else is exact.
void emulate(const cuda::MapKernel& kernel, std::span<const Range> parameters, bool backwards = false);

}  // namespace lamina::test
