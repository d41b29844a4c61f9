#include "pictures/text.h"

#include <cstdio>
#include <fstream>
#include <span>

#include "lamina/base/atomic_file.h"
#include "lamina/cuda/runtime/device.h"

namespace lamina::app {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

}  // namespace

std::string describe_device(Device device, int threads) {
  if (device.is_cuda()) return cuda::device_name(device.index);
  return cpu_model() + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

void write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  detail::write_file_atomically(path, std::as_bytes(std::span(text)));
}

}  // namespace lamina::app
