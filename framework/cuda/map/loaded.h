#pragma once

#include <memory>
#include <string>

namespace lamina::cuda {

/// A kernel that the driver has made of a module's text. Those of equal texts are one, compiled once in a process and
/// loaded by each device at its first launch; it is freed with the last that holds it.
class LoadedKernel {
 public:
  /// Throws Error with the driver's words if it may not, or cannot, compile. In a dry run nothing is compiled.
  LoadedKernel(const std::string& module, const std::string& name);

  /// What launch_kernel takes.
  const void* get() const { return kernel_.get(); }

 private:
  std::shared_ptr<const void> kernel_;
};

}  // namespace lamina::cuda
