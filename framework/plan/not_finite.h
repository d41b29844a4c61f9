#pragma once

#include "lamina/plan/plan.h"

namespace lamina::detail {

/// Which of a run's outputs on the host hold NaN or infinite numbers among their first `most`, but for those that were
/// said before, in words for people; empty if none does.
LAMINA_API std::string not_finite(const Plan& plan, std::span<const Tensor> outputs, std::vector<bool>& said,
                                  std::int64_t most);

}  // namespace lamina::detail
