#include <fmt/core.h>
#include <lamina/lamina.h>

#include "commands/commands.h"
#include "lamina/base/text_table.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cuda/runtime/device.h"
#include "lamina/tensor/device_memory.h"

namespace lamina::app {
namespace {

void doctor() {
  const cuda::BackendInfo backend = cuda::backend_info();
  fmt::print("lamina {}\n", version());
  const DeviceDescription cpu = describe(Device::cpu());
  fmt::print("cpu: {} threads, {}, bf16 by {}\n", ThreadPool::default_threads(), name(cpu.instructions),
             cpu.amx_bf16      ? "AMX"
             : cpu.avx512_bf16 ? "AVX512-BF16"
                               : "f32 multiply-adds");
  fmt::print("photographs: {}\n", image_formats());
  fmt::print("jpeg: {}\n", jpeg_decoder());
  if (!backend.built) {
    fmt::print("cuda: {}\n", detail::cuda_unavailable_reason());
  } else {
    fmt::print("cuda: compiled for compute capability {}\n", backend.architectures);
    const std::string driver = backend.driver_version;
    fmt::print("cuda: runtime {}, {}\n", backend.runtime_version,
               driver.empty() ? "no driver" : "the driver supports up to " + driver);
    for (int i = 0; i < backend.visible_devices; ++i) {
      const cuda::DeviceInfo device = cuda::device_info(i);
      fmt::print("cuda:{}: {}, compute capability {}.{}, {} multiprocessors, {} memory, {} L2{}\n", i, device.name,
                 device.compute_major, device.compute_minor, device.multiprocessors,
                 detail::format_bytes(device.memory_bytes), detail::format_bytes(device.l2_bytes),
                 device.usable ? "" : "; not usable: this build has no code for it");
    }
  }
  const Device best = best_device();
  fmt::print("--device auto uses {}", to_string(best));
  if (best.is_cpu() && backend.built) fmt::print(": {}", detail::cuda_unavailable_reason());
  fmt::print("\n");
}

}  // namespace

void add_doctor(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("doctor", "Show what this build and this machine offer, and what would be used");
  command->footer("Example:\n  lamina doctor");
  command->callback(doctor);
}

}  // namespace lamina::app
