#pragma once

#include <memory>

#include "lamina/images/preprocess.h"
#include "lamina/kernel/operator.h"

namespace lamina::detail {

/// The operator that a Plan which takes photos puts before the first layer: from 8-bit pictures, u8 nhwc, to
/// `preparation.output`, rounded once where that is f16 or bf16. `preparation` names one input [N, 3, H, W].
/// Throws Error for settings that are no normalisation.
std::unique_ptr<Operator> prepare_normalization(const Preparation& preparation, const Preprocess& settings);

}  // namespace lamina::detail
