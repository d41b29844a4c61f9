#include <fmt/core.h>
#include <lamina/lamina.h>

#include <nlohmann/json.hpp>

#include "commands/commands.h"
#include "complain.h"
#include "inputs.h"
#include "json_output.h"
#include "lamina/base/text_table.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cuda/runtime/device.h"
#include "lamina/tensor/device_memory.h"
#include "models/shipped.h"

namespace lamina::app {
namespace {

const char* bf16_unit(const DeviceDescription& cpu) {
  return cpu.amx_bf16 ? "AMX" : cpu.avx512_bf16 ? "AVX512-BF16" : "f32 multiply-adds";
}
const char* int8_unit(const DeviceDescription& cpu) {
  return cpu.amx_int8 ? "AMX" : cpu.avx512_vnni ? "AVX512-VNNI" : cpu.neon_dot ? "SDOT" : "sums of i32";
}

nlohmann::ordered_json rooms_json() {
  nlohmann::ordered_json json;
  for (const Room& room : rooms) json[room.command] = room.add != nullptr;
  return json;
}

/// "detect, quantize; not in it: serve"
std::string rooms_text() {
  std::string here, absent;
  for (const Room& room : rooms) {
    std::string& text = room.add == nullptr ? absent : here;
    text += (text.empty() ? "" : ", ") + std::string(room.command);
  }
  return (here.empty() ? "none" : here) + (absent.empty() ? "" : "; not in it: " + absent);
}

nlohmann::ordered_json as_json(const DeviceDescription& cpu, const cuda::BackendInfo& backend) {
  auto devices = nlohmann::ordered_json::array();
  for (int i = 0; i < backend.visible_devices; ++i) {
    const cuda::DeviceInfo device = cuda::device_info(i);
    devices.push_back({{"name", device.name},
                       {"compute_capability", fmt::format("{}.{}", device.compute_major, device.compute_minor)},
                       {"multiprocessors", device.multiprocessors},
                       {"memory_bytes", device.memory_bytes},
                       {"l2_bytes", device.l2_bytes},
                       {"usable", device.usable},
                       {"compiles_kernels", device.usable && cuda::driver_compiles(i)}});
  }
  return {{"version", version()},
          {"cpu",
           {{"threads", ThreadPool::default_threads()},
            {"instructions", name(cpu.instructions)},
            {"bf16", bf16_unit(cpu)},
            {"int8", int8_unit(cpu)}}},
          {"rooms", rooms_json()},
          {"photographs", image_formats()},
          {"jpeg", jpeg_decoder()},
          {"cuda",
           {{"built", backend.built},
            {"architectures", backend.architectures},
            {"runtime", backend.runtime_version},
            {"driver", backend.driver_version},
            {"devices", devices}}},
          {"auto", to_string(best_device())}};
}

void doctor(const JsonOutput& json) {
  const cuda::BackendInfo backend = cuda::backend_info();
  const DeviceDescription cpu = describe(Device::cpu());
  json.write(as_json(cpu, backend));
  if (json.to_stdout()) return;
  fmt::print("lamina {}\n", version());
  fmt::print("cpu: {} threads, {}, bf16 by {}, eight bits by {}\n", ThreadPool::default_threads(),
             name(cpu.instructions), bf16_unit(cpu), int8_unit(cpu));
  fmt::print("of the commands that a build can leave out, this one has: {}\n", rooms_text());
  fmt::print("photographs: {}\n", image_formats());
  fmt::print("jpeg: {}\n", jpeg_decoder());
  if (!backend.built) {
    fmt::print("cuda: {}\n", in_commands_words(detail::cuda_unavailable_reason()));
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
      if (device.usable && !cuda::driver_compiles(i)) {
        fmt::print(
            "cuda:{}: the driver compiles no kernels (CUDA_DISABLE_PTX_JIT, or libnvidia-ptxjitcompiler is missing): "
            "whatever is no product takes several times as long\n",
            i);
      }
    }
  }
  const Device best = best_device();
  fmt::print("--device auto uses {}", to_string(best));
  if (best.is_cpu() && backend.built) fmt::print(": {}", detail::cuda_unavailable_reason());
  fmt::print("\n");
  fmt::print("next: {}\n", fetched_classifier().empty()
                               ? classifier_bringer() +
                                     " brings a classifier of photographs; without it, lamina classify PHOTO "
                                     "--model digits reads a handwritten digit"
                               : "lamina classify PHOTO names what is in a photograph");
}

}  // namespace

void add_doctor(CLI::App& app) {
  auto json = std::make_shared<JsonOutput>();
  CLI::App* command =
      app.add_subcommand("doctor", "Show what this build and this machine offer, and what would be used");
  json->add_to(*command, "the same");
  command->footer("Example:\n  lamina doctor");
  command->callback([json] { doctor(*json); });
}

}  // namespace lamina::app
