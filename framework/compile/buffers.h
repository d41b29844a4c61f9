#pragma once

#include <vector>

#include "lamina/compile/program.h"
#include "lamina/plan/plan_impl.h"

namespace lamina::detail {

/// Gives every value of a program a buffer of the plan, which lives from the step that writes it to the last that reads
/// it; steps are numbered by operation. A view, and what is written over its operand, share the operand's. Returns the
/// buffers' places, by value.
std::vector<int> assign_buffers(const Program& program, Plan::Impl& plan);

}  // namespace lamina::detail
