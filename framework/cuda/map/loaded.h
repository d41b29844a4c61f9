#pragma once

#include <future>
#include <memory>
#include <string>

namespace lamina::cuda {

/// A kernel that the driver makes of a module's text, in a thread of its own, as long as processors are free. Those of
/// equal texts are one for all devices of an architecture, compiled once in a process and loaded by each device at its
/// first launch; it is freed with the last that holds it.
class LoadedKernel {
 public:
  /// `device` is one of those, `architecture` its compute capability. In a dry run nothing is compiled, but the text is
  /// noted.
  LoadedKernel(int device, int architecture, const std::string& module, const std::string& name);

  /// What launch_kernel takes, when it is there. Throws Error with the driver's words if it may not, or cannot,
  /// compile.
  const void* get() const;

 private:
  struct Library;
  using Making = std::shared_future<std::unique_ptr<Library>>;
  std::shared_ptr<const Making> making_;
};

}  // namespace lamina::cuda
