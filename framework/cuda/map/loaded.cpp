#include "lamina/cuda/map/loaded.h"

#include <cuda_runtime.h>

#include <map>
#include <mutex>

#include "lamina/base/error.h"
#include "lamina/tensor/device_memory.h"

namespace lamina::cuda {
namespace {

struct Library {
  cudaLibrary_t handle = nullptr;
  cudaKernel_t kernel = nullptr;

  Library(const std::string& module, const std::string& name) {
    require(cudaLibraryLoadData(&handle, module.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    require(cudaLibraryGetKernel(&kernel, handle, name.c_str()));
  }
  ~Library() {
    if (handle != nullptr) (void)cudaLibraryUnload(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

 private:
  static void require(cudaError_t status) {
    if (status == cudaSuccess) return;
    detail::fail("the driver does not compile a generated kernel: ", cudaGetErrorString(status), " (",
                 cudaGetErrorName(status), ")");
  }
};

std::mutex mutex;
std::map<std::string, std::weak_ptr<Library>> libraries;  // by text

}  // namespace

LoadedKernel::LoadedKernel(const std::string& module, const std::string& name) {
  if (lamina::detail::DryRun::active()) return;
  const std::lock_guard lock(mutex);
  std::erase_if(libraries, [](const auto& one) { return one.second.expired(); });
  std::shared_ptr<Library> library = libraries[module].lock();
  if (!library) libraries[module] = library = std::make_shared<Library>(module, name);
  kernel_ = std::shared_ptr<const void>(library, library->kernel);
}

}  // namespace lamina::cuda
