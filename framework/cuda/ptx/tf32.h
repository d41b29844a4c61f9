#pragma once

namespace lamina::cuda::ptx {

/// The operand type that C++ has no name for: f32 whose low 13 bits the tensor cores ignore.
struct Tf32 {};

}  // namespace lamina::cuda::ptx
