#include "lamina/ops/expansion.h"
#include "lamina/ops/table.h"

namespace lamina::detail {

std::span<const OpRow> move_ops() { return {}; }

}  // namespace lamina::detail
