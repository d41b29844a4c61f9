#include "lamina/cuda/map/loaded.h"

#include <cuda.h>

#include <map>
#include <mutex>
#include <type_traits>

#include "lamina/base/error.h"
#include "lamina/cuda/runtime/driver_function.h"
#include "lamina/tensor/device_memory.h"

namespace lamina::cuda {
namespace {

struct Library {
  using Unload = decltype(&cuLibraryUnload);
  std::unique_ptr<std::remove_pointer_t<CUlibrary>, Unload> handle{nullptr, driver_function<Unload>("cuLibraryUnload")};
  CUkernel kernel = nullptr;

  Library(const std::string& module, const std::string& name) {
    const auto load = driver_function<decltype(&cuLibraryLoadData)>("cuLibraryLoadData");
    const auto find = driver_function<decltype(&cuLibraryGetKernel)>("cuLibraryGetKernel");
    CUlibrary loaded = nullptr;
    require(load(&loaded, module.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    handle.reset(loaded);
    require(find(&kernel, loaded, name.c_str()));
  }

 private:
  static void require(CUresult status) {
    if (status == CUDA_SUCCESS) return;
    const char* words = "no words for it";
    (void)driver_function<decltype(&cuGetErrorString)>("cuGetErrorString")(status, &words);
    detail::fail("the driver does not compile a generated kernel: ", words);
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
