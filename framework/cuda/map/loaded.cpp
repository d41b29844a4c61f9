#include "lamina/cuda/map/loaded.h"

#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <semaphore>
#include <thread>
#include <type_traits>

#include "lamina/base/error.h"
#include "lamina/cuda/map/ptx_text.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/device.h"
#include "lamina/cuda/runtime/driver_function.h"
#include "lamina/tensor/device_memory.h"

namespace lamina::cuda {
namespace {

#define LAMINA_DRIVER(function) driver_function<decltype(&function)>(#function)

void require(CUresult status, const char* log = "") {
  if (status == CUDA_SUCCESS) return;
  const char* words = "no words for it";
  (void)LAMINA_DRIVER(cuGetErrorString)(status, &words);
  detail::fail(ErrorKind::failed, "the driver does not compile a generated kernel: ", words, *log == 0 ? "" : ": ",
               log);
}

/// As many compile at once as there are processors.
struct Turn {
  Turn() { free().acquire(); }
  ~Turn() { free().release(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  static std::counting_semaphore<>& free() {
    static std::counting_semaphore<> processors(std::max<std::ptrdiff_t>(std::thread::hardware_concurrency(), 1));
    return processors;
  }
};

template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, CUresult (*)(Handle)>;

}  // namespace

struct LoadedKernel::Library {
  Owned<CUlibrary> handle{nullptr, LAMINA_DRIVER(cuLibraryUnload)};
  CUkernel kernel = nullptr;

  /// By the linker, which compiles in several threads at once, as the loader does not.
  Library(int device, const std::string& module, const std::string& name) {
    const DeviceGuard guard(device);
    check(cudaFree(nullptr));  // the linker wants the device's context
    std::array<char, 1024> log{};
    std::array<CUjit_option, 2> options = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(std::uintptr_t{log.size() - 1})};
    CUlinkState state = nullptr;
    require(LAMINA_DRIVER(cuLinkCreate)(2, options.data(), values.data(), &state));
    const Owned<CUlinkState> linker(state, LAMINA_DRIVER(cuLinkDestroy));
    require(LAMINA_DRIVER(cuLinkAddData)(state, CU_JIT_INPUT_PTX, const_cast<char*>(module.c_str()), module.size() + 1,
                                         name.c_str(), 0, nullptr, nullptr),
            log.data());
    void* code = nullptr;
    std::size_t size = 0;
    require(LAMINA_DRIVER(cuLinkComplete)(state, &code, &size), log.data());
    CUlibrary loaded = nullptr;
    require(LAMINA_DRIVER(cuLibraryLoadData)(&loaded, code, nullptr, nullptr, 0, nullptr, nullptr, 0));
    handle.reset(loaded);
    require(LAMINA_DRIVER(cuLibraryGetKernel)(&kernel, loaded, name.c_str()));
  }
};

LoadedKernel::LoadedKernel(int device, int architecture, const std::string& module, const std::string& name) {
  if (lamina::detail::DryRun::active()) {
    lamina::detail::DryRun::note_text(module);
    return;
  }
  static std::mutex mutex;
  static std::map<std::pair<int, std::string>, std::weak_ptr<const Making>> known;
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& one) { return one.second.expired(); });
  std::weak_ptr<const Making>& place = known[{architecture, module}];
  making_ = place.lock();
  if (making_) return;
  place = making_ = std::make_shared<const Making>(std::async(std::launch::async, [=] {
    const Turn turn;
    return std::make_unique<Library>(device, module, name);
  }));
}

bool driver_compiles(int device) {
  if (lamina::detail::DryRun::active()) return true;
  static const bool compiles = [device] {
    // A driver that may not compile still has what it compiled before, such as the kernel below.
    const char* const disabled = std::getenv("CUDA_DISABLE_PTX_JIT");
    if (disabled != nullptr && std::atoi(disabled) != 0) return false;
    try {
      PtxText text;
      const std::string kernel = text.entry("nothing", 0, 32, 0);
      (void)LoadedKernel(device, 0, ptx_header(0) + kernel, "nothing").get();
      return true;
    } catch (const Error&) {
      return false;
    }
  }();
  return compiles;
}

const void* LoadedKernel::get() const { return making_ ? making_->get()->kernel : nullptr; }

}  // namespace lamina::cuda
