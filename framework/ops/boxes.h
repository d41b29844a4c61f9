#pragma once

#include "lamina/ops/expansion.h"

namespace lamina::detail {

/// The data with updates at known places that are a box, as x[:, 1:] = y is exported: slices joined. -1 if they are
/// none.
int put_box(Expansion& e, int data, int indices, int updates);

}  // namespace lamina::detail
