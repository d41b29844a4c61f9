#pragma once

#include <nanobind/nanobind.h>

#include <span>
#include <string>
#include <vector>

#include "lamina/plan/plan.h"

namespace lamina::python {

/// Says once of each output of a plan that it has numbers which are NaN or infinite, by a lamina.NotFiniteWarning.
class NotFinite {
 public:
  /// What is to be said of the outputs of a run; empty if nothing is. Looked at are those on the host, and the first
  /// 65,536 numbers of each: 36 us at most, 42 of bf16, where all of 100 MB would take 46 ms.
  std::string found(const Plan& plan, std::span<const Tensor> outputs);

  /// Warns, with the GIL held. Throws what Python raises where warnings are errors.
  static void warn(const std::string& text);

 private:
  std::vector<bool> said_;
};

void bind_not_finite(nanobind::module_& m);

}  // namespace lamina::python
