#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "lamina/tensor/device.h"

/// The few device functions that tensors need. framework/cuda defines them: runtime/device.cpp with the CUDA toolkit,
/// runtime/no_cuda.cpp without it. Nothing here mentions a CUDA type.
namespace lamina::detail {

/// CUDA devices that this build can use on this host; 0 without a GPU, without a driver, in a build without CUDA.
int cuda_device_count() noexcept;

/// Why `cuda_device_count()` is 0, in one line for people; empty when it is not.
std::string cuda_unavailable_reason();

/// Throws Error, with the reason, unless CUDA device `index` can be used.
void require_cuda_device(int index);

/// Throws Error saying how much was asked for and how much was free. The process stays usable.
void* device_allocate(Device device, std::size_t bytes);
void device_free(Device device, void* pointer) noexcept;

/// Page-locked host memory, never null. Throws Error if there is none, and in a build without CUDA.
std::shared_ptr<void> allocate_pinned(std::size_t bytes);

/// Copies between any two places (host memory is Device::cpu()) and waits until the copy is done.
void copy_bytes(void* destination, Device to, const void* source, Device from, std::size_t bytes);

/// While one lives, this thread's device memory is counted by whoever asks for it, but not taken: device_allocate
/// returns an address that must not be read or written, and copies to it are skipped. What a Plan will need is found
/// out by preparing it like this.
class DryRun {
 public:
  DryRun();
  ~DryRun();
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;

  static bool active();

  /// For people: the text of a kernel that a driver would have been given. Kept for this thread until it is taken.
  static void note_text(std::string text);
  static std::vector<std::string> take_texts();

 private:
  std::vector<std::string> texts_;
  DryRun* around_;
};

}  // namespace lamina::detail
