#pragma once

#include <memory>

#include "lamina/kernel/operator.h"

namespace lamina::detail {

/// The operator that a Plan puts between a layer that gives one format and one that takes another.
/// `preparation` names one input and both formats.
std::unique_ptr<Operator> prepare_conversion(const Preparation& preparation);

}  // namespace lamina::detail
