#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "lamina/base/error.h"
#include "lamina/cuda/runtime/architectures.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/device.h"
#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/device_description.h"
#include "lamina/tensor/device_memory.h"

namespace lamina::cuda {
namespace {

/// 13000 -> "13.0", as the runtime and the driver number their versions.
std::string version_text(int version) { return detail::concat(version / 1000, '.', version % 1000 / 10); }

int driver_version() {
  int version = 0;  // stays 0 without a driver
  if (cudaDriverGetVersion(&version) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return version;
}

std::string architectures_text() {
  std::string text;
  for (const int architecture : compiled_architectures()) {
    text += detail::concat(text.empty() ? "" : " ", architecture / 10, '.', architecture % 10);
  }
  return text;
}

/// Whether the device can run this build's kernels. A device whose very architecture was compiled for needs no
/// trial; for any other the driver is asked, which starts the device.
bool runs_kernels(int index, int major, int minor) {
  const auto compiled = compiled_architectures();
  if (std::find(compiled.begin(), compiled.end(), 10 * major + minor) != compiled.end()) return true;
  try {
    const DeviceGuard guard(index);
    return kernels_load();
  } catch (const Error&) {
    return false;
  }
}

struct Devices {
  int visible = 0;
  int usable = 0;  // devices 0 .. usable - 1 can all be used
  std::string reason;
};

std::string why_none(cudaError_t status) {
  const int driver = driver_version();
  if (status == cudaErrorInsufficientDriver && driver == 0) return "no NVIDIA driver is installed on this host";
  if (status == cudaErrorInsufficientDriver) {
    return detail::concat("the NVIDIA driver of this host supports CUDA up to ", version_text(driver),
                          ", this build needs ", version_text(CUDART_VERSION), ": update the driver");
  }
  if (status == cudaErrorNoDevice) return "this host has no NVIDIA GPU, or CUDA_VISIBLE_DEVICES hides it";
  return detail::concat("CUDA does not start: ", cudaGetErrorString(status));
}

Devices find_devices() {
  Devices devices;
  int count = 0;
  // On failure the count is left untouched, and the error would surface at somebody else's next check.
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
    (void)cudaGetLastError();
    devices.reason = why_none(status);
    return devices;
  }
  devices.visible = count;
  for (int i = 0; i < count; ++i) {
    const DeviceInfo info = device_info(i);
    if (!info.usable) {
      devices.reason = detail::concat("cuda:", i, " (", info.name, ") has compute capability ", info.compute_major, '.',
                                      info.compute_minor, ", this build has kernels for ", architectures_text());
      break;
    }
    ++devices.usable;
  }
  return devices;
}

/// Looked up once: devices do not come and go while a process runs.
const Devices& devices() {
  static const Devices found = [] {
    try {
      return find_devices();
    } catch (const std::exception& error) {
      return Devices{.reason = error.what()};
    }
  }();
  return found;
}

std::string megabytes(std::size_t bytes) { return detail::concat(bytes >> 20, " MiB"); }

}  // namespace

BackendInfo backend_info() {
  const int driver = driver_version();
  return {.built = true,
          .architectures = architectures_text(),
          .runtime_version = version_text(CUDART_VERSION),
          .driver_version = driver == 0 ? "" : version_text(driver),
          .visible_devices = devices().visible};
}

DeviceInfo device_info(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index));
  return {.index = index,
          .name = properties.name,
          .compute_major = properties.major,
          .compute_minor = properties.minor,
          .multiprocessors = properties.multiProcessorCount,
          .memory_bytes = properties.totalGlobalMem,
          .l2_bytes = static_cast<std::size_t>(properties.l2CacheSize),
          .shared_bytes_per_block =
              static_cast<std::size_t>(device_attribute(index, cudaDevAttrMaxSharedMemoryPerBlockOptin)),
          .usable = runs_kernels(index, properties.major, properties.minor)};
}

std::size_t free_memory(int index) {
  const DeviceGuard guard(index);
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  return free;
}

std::string device_name(int index) { return device_info(index).name; }

namespace {

DeviceDescription ask(int index) {
  const DeviceGuard guard(index);
  const auto attribute = [index](cudaDeviceAttr which) { return device_attribute(index, which); };
  DeviceDescription d = {
      .device = Device::cuda(index),
      .architecture = 10 * attribute(cudaDevAttrComputeCapabilityMajor) + attribute(cudaDevAttrComputeCapabilityMinor),
      .multiprocessors = attribute(cudaDevAttrMultiProcessorCount),
      .shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin),
      .multiprocessor_shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
      .reserved_shared_bytes = attribute(cudaDevAttrReservedSharedMemoryPerBlock)};
  d.wgmma = d.architecture == 90 && compiled_for_90a();
  for (int size = 2; d.architecture >= 90 && size <= DeviceDescription::max_cluster; ++size) {
    d.clusters[static_cast<std::size_t>(size)] = clusters_at_once(size, d.shared_bytes);
  }
  d.clusters[1] = d.multiprocessors;
  return d;
}

}  // namespace
}  // namespace lamina::cuda

namespace lamina::detail {

int cuda_device_count() noexcept { return cuda::devices().usable; }

std::string cuda_unavailable_reason() { return cuda_device_count() > 0 ? "" : cuda::devices().reason; }

void require_cuda_device(int index) {
  const int count = cuda_device_count();
  if (index >= 0 && index < count) return;
  if (count == 0) fail(ErrorKind::unsupported, "cuda:", index, " cannot be used: ", cuda::devices().reason);
  if (index >= 0 && index < cuda::devices().visible)
    fail(ErrorKind::unsupported, "cuda:", index, " cannot be used: ", cuda::devices().reason);
  fail("cuda:", index, " does not exist: this host has ", count,
       count == 1 ? " device, cuda:0" : " devices, from cuda:0");
}

DeviceDescription describe_cuda(int index) {
  require_cuda_device(index);
  static std::mutex mutex;
  static std::map<int, DeviceDescription> known;
  const std::scoped_lock lock(mutex);
  const auto found = known.find(index);
  return found != known.end() ? found->second : known[index] = cuda::ask(index);
}

namespace {

/// Not null and aligned, as kernels that look at addresses when they are prepared expect.
void* nowhere() { return reinterpret_cast<void*>(std::uintptr_t{1} << 40); }

}  // namespace

void* device_allocate(Device device, std::size_t bytes) {
  if (DryRun::active()) return nowhere();
  require_cuda_device(device.index);
  const cuda::DeviceGuard guard(device.index);
  void* pointer = nullptr;
  const cudaError_t status = cudaMalloc(&pointer, bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    std::size_t free = 0;
    std::size_t total = 0;
    cuda::check(cudaMemGetInfo(&free, &total));
    fail(ErrorKind::out_of_memory, device, ": out of memory: asked for ", bytes, " bytes (", cuda::megabytes(bytes),
         "), free are ", free, " bytes (", cuda::megabytes(free), " of ", cuda::megabytes(total), ')');
  }
  cuda::check(status);
  return pointer;
}

void device_free(Device device, void* pointer) noexcept {
  if (pointer == nullptr || pointer == nowhere()) return;
  int previous = 0;
  // Runs in destructors, also while the process ends and the driver is gone: a failure here has nobody to tell.
  if (cudaGetDevice(&previous) == cudaSuccess && cudaSetDevice(device.index) == cudaSuccess) {
    (void)cudaFree(pointer);
    (void)cudaSetDevice(previous);
  }
  (void)cudaGetLastError();
}

std::shared_ptr<void> allocate_pinned(std::size_t bytes) {
  const auto buffer = std::make_shared<cuda::PinnedBuffer>(bytes == 0 ? 1 : bytes);
  return {buffer, buffer->data()};
}

void copy_bytes(void* destination, Device to, const void* source, Device from, std::size_t bytes) {
  if (bytes == 0 || (to.is_cuda() && destination == nowhere())) return;
  if (to.is_cpu() && from.is_cpu()) {
    std::memmove(destination, source, bytes);
    return;
  }
  const cuda::DeviceGuard guard(to.is_cuda() ? to.index : from.index);
  if (to.is_cuda() && from.is_cuda() && to.index != from.index) {
    cuda::check(cudaMemcpyPeer(destination, to.index, source, from.index, bytes));
  } else {
    cuda::check(cudaMemcpy(destination, source, bytes, cudaMemcpyDefault));
  }
  // A copy within the device, and a small one from pageable memory, return before they are done.
  cuda::check(cudaStreamSynchronize(nullptr));
}

}  // namespace lamina::detail
