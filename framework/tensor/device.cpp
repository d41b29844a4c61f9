#include "lamina/tensor/device.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/tensor/device_memory.h"

namespace lamina {

std::string to_string(Device device) { return device.is_cpu() ? "cpu" : detail::concat("cuda:", device.index); }

std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

Device parse_device(std::string_view text) {
  if (text == "auto") return best_device();
  if (text == "cpu") return Device::cpu();

  int index = 0;
  bool valid = text == "cuda";
  if (text.starts_with("cuda:")) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + 5, end, index);
    valid = error == std::errc() && stop == end && index >= 0;
  }
  if (!valid)
    detail::fail("device: expected auto, cpu, cuda or cuda:INDEX, got \"", text, '"',
                 text.starts_with("gpu") || text.starts_with("GPU") ? "; a GPU is called cuda" : "");
  detail::require_cuda_device(index);
  return Device::cuda(index);
}

std::vector<Device> parse_devices(std::string_view text) {
  std::vector<Device> devices;
  if (text == "cuda:all") {
    detail::require_cuda_device(0);
    for (int i = 0; i < detail::cuda_device_count(); ++i) devices.push_back(Device::cuda(i));
    return devices;
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const Device device = parse_device(text.substr(begin, end - begin));
    if (std::find(devices.begin(), devices.end(), device) != devices.end()) {
      detail::fail("device: ", device, " is named twice in \"", text, '"');
    }
    devices.push_back(device);
    begin = end + 1;
  }
  return devices;
}

namespace detail {
namespace {

thread_local DryRun* dry_run = nullptr;

}  // namespace

DryRun::DryRun() : around_(dry_run) { dry_run = this; }
DryRun::~DryRun() { dry_run = around_; }
bool DryRun::active() { return dry_run != nullptr; }
void DryRun::note_text(std::string text) { dry_run->texts_.push_back(std::move(text)); }
std::vector<std::string> DryRun::take_texts() { return std::exchange(dry_run->texts_, {}); }

}  // namespace detail

Device best_device() noexcept { return detail::cuda_device_count() > 0 ? Device::cuda(0) : Device::cpu(); }

}  // namespace lamina
