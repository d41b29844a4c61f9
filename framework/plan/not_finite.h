#pragma once

#include "lamina/plan/plan.h"

namespace lamina::detail {

/// A sentence for people that names the outputs on the host which hold NaN or infinite numbers among their first `most`
/// numbers. Outputs that were named before are left out. Empty if there are none.
LAMINA_API std::string not_finite(const Plan& plan, std::span<const Tensor> outputs, std::vector<bool>& said,
                                  std::int64_t most);

}  // namespace lamina::detail
