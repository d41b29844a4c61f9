#include "lamina/ops/expansion.h"
#include "lamina/ops/table.h"

namespace lamina::detail {

std::span<const OpRow> shape_ops() { return {}; }

}  // namespace lamina::detail
