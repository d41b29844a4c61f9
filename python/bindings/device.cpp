#include "device.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <charconv>

#include "lamina/base/error.h"
#include "lamina/kernel/device_description.h"
#include "lamina/tensor/device_memory.h"
#include "options.h"

namespace lamina::python {
namespace {

namespace nb = nanobind;
using detail::fail;

constexpr std::string_view instruction_sets[] = {"avx512", "avx2", "neon", "scalar"};  // in the order of the enum

InstructionSet instruction_set(const std::string& text) {
  const auto* found = std::ranges::find(instruction_sets, text);
  if (found == std::end(instruction_sets)) {
    fail("instructions: expected avx512, avx2, neon or scalar, got \"", text, '"');
  }
  return static_cast<InstructionSet>(found - instruction_sets);
}

/// Unlike parse_device, of a device that need not be there.
Device device_from(const std::string& text) {
  if (text == "cpu") return Device::cpu();
  if (text == "cuda") return Device::cuda();
  int index = -1;
  if (text.starts_with("cuda:")) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + 5, end, index);
    if (error != std::errc() || stop != end) index = -1;
  }
  if (index < 0) fail("device: expected cpu, cuda or cuda:INDEX, got \"", text, '"');
  return Device::cuda(index);
}

std::string device_text(const DeviceDescription& self) {
  if (self.device.is_cpu()) {
    return detail::concat("<lamina.DeviceDescription of cpu, ", name(self.instructions),
                          self.avx512_bf16 ? ", AVX512-BF16" : "", self.amx_bf16 ? ", AMX-BF16" : "", '>');
  }
  return detail::concat("<lamina.DeviceDescription of ", self.device, ", ", self.architecture / 10, '.',
                        self.architecture % 10, ", ", self.multiprocessors, " multiprocessors>");
}

}  // namespace

void bind_device(nb::module_& m) {
  nb::class_<DeviceDescription>(m, "DeviceDescription",
                                "What the choice of a kernel knows of a device. describe() has those of this machine; "
                                "with one of another device, given as\ndescription= to plan_summary(), the plan is "
                                "that device's, and with less than there is (avx2, an architecture of 80), compile()\n"
                                "makes do with it.")
      .def(
          "__init__",
          [](DeviceDescription* self, const std::string& device) {
            new (self) DeviceDescription{.device = device_from(device)};
          },
          nb::arg("device"), "Of a device of which nothing is known yet.")
      .def_prop_ro("device", [](const DeviceDescription& self) { return to_string(self.device); })
      .def_prop_rw(
          "instructions",
          [](const DeviceDescription& self) {
            return std::string(instruction_sets[static_cast<std::size_t>(self.instructions)]);
          },
          [](DeviceDescription& self, const std::string& text) { self.instructions = instruction_set(text); },
          "Of a CPU, at most: avx512, avx2, neon or scalar.")
      .def_rw("avx512_bf16", &DeviceDescription::avx512_bf16, "Of a CPU: products of pairs of bf16 that are fast.")
      .def_rw("amx_bf16", &DeviceDescription::amx_bf16, "Of a CPU: products of tiles of bf16.")
      .def_rw("neon_dot", &DeviceDescription::neon_dot, "Of an ARM CPU: products of fours of i8.")
      .def_rw("avx512_vnni", &DeviceDescription::avx512_vnni, "Of a CPU: products of fours of u8 and i8.")
      .def_rw("amx_int8", &DeviceDescription::amx_int8, "Of a CPU: products of tiles of them.")
      .def_rw("architecture", &DeviceDescription::architecture, "Of a GPU: its compute capability times ten.")
      .def_rw("wgmma", &DeviceDescription::wgmma, "Of a GPU: it is of 9.0, and this build has code for 9.0a.")
      .def_rw("multiprocessors", &DeviceDescription::multiprocessors)
      .def_rw("shared_bytes", &DeviceDescription::shared_bytes, "Of shared memory that one block can have.")
      .def_rw("multiprocessor_shared_bytes", &DeviceDescription::multiprocessor_shared_bytes)
      .def_rw("reserved_shared_bytes", &DeviceDescription::reserved_shared_bytes,
              "That the driver takes for each block.")
      .def_rw("clusters", &DeviceDescription::clusters, "Clusters of 0, 1, ..., 8 blocks that run at a time.")
      .def("__repr__", &device_text);
  m.def(
      "describe", [](const std::string& device) { return describe(parse_device(device)); }, nb::arg("device") = "auto",
      "The description of a device of this machine. Raises Error, with the reason, if it cannot be used.");
  m.def(
      "best_device", [] { return to_string(best_device()); },
      "\"cuda:0\" where there is a GPU that this build can use, else \"cpu\".");
  m.def("cuda_device_count", &detail::cuda_device_count, "GPUs that this build can use here.");
  m.def(
      "cuda_unavailable_reason", [] { return in_pythons_words(detail::cuda_unavailable_reason()); },
      "Why there are none; empty if there are.");
}

}  // namespace lamina::python
