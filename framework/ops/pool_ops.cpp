#include "lamina/ops/expansion.h"
#include "lamina/ops/table.h"

namespace lamina::detail {

std::span<const OpRow> pool_ops() { return {}; }

}  // namespace lamina::detail
