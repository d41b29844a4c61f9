// Stands in for the CUDA backend in a build without the CUDA toolkit: the same symbols, and one reason for all.
// What can only be reached with a device in hand fails as requiring one does.

#include "lamina/base/error.h"
#include "lamina/cuda/runtime/device.h"
#include "lamina/cuda/runtime/peak.h"
#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/all_problems.h"
#include "lamina/kernel/kernel.h"
#include "lamina/tensor/device_memory.h"

namespace lamina::detail {
namespace {

constexpr const char* reason =
    "this build of Lamina has no CUDA support (a clone of Lamina makes a wheel that has it, by "
    "`scripts/build_wheel.sh --cuda`, or is built with -DLAMINA_CUDA=ON)";

[[noreturn]] void refuse(int device) {
  fail(ErrorKind::unsupported, Device::cuda(device), " cannot be used: ", reason);
}

}  // namespace

int cuda_device_count() noexcept { return 0; }

std::string cuda_unavailable_reason() { return reason; }

void require_cuda_device(int index) { refuse(index); }

DeviceDescription describe_cuda(int index) { refuse(index); }

void* device_allocate(Device device, std::size_t) { refuse(device.index); }

void device_free(Device, void*) noexcept {}

std::shared_ptr<void> allocate_pinned(std::size_t) { refuse(0); }

void copy_bytes(void*, Device to, const void*, Device from, std::size_t) {
  fail(ErrorKind::unsupported, "cannot copy from ", from, " to ", to, ": ", reason);
}

}  // namespace lamina::detail

namespace lamina::cuda {

using detail::refuse;

BackendInfo backend_info() { return {}; }
bool driver_compiles(int) { return false; }
DeviceInfo device_info(int index) { refuse(index); }
std::size_t free_memory(int index) { refuse(index); }
std::string device_name(int index) { refuse(index); }

void DestroyStream::operator()(void*) const noexcept {}
void DestroyEvent::operator()(void*) const noexcept {}
void FreePinned::operator()(void*) const noexcept {}
void DestroyGraph::operator()(void*) const noexcept {}

OwnedStream::OwnedStream(int device) { refuse(device); }
Event::Event(int device) { refuse(device); }
void Event::record(Stream) {}
void Event::hold(Stream) const {}
bool Event::reached() const { return true; }
void Event::synchronize() const {}
float Event::milliseconds(const Event&, const Event&) { return 0; }
PinnedBuffer::PinnedBuffer(std::size_t) { refuse(0); }
CapturedGraph::CapturedGraph(int device, const Function<void(Stream)>&) { refuse(device); }
void CapturedGraph::launch(Stream) const {}

bool is_capturing(int, Stream) { return false; }
ProfilerRange::ProfilerRange(const char*) {}
ProfilerRange::~ProfilerRange() {}

void upload(int device, void*, const void*, std::size_t, Stream) { refuse(device); }
void download(int device, void*, const void*, std::size_t, Stream) { refuse(device); }
void copy_on_device(int device, void*, const void*, std::size_t, Stream) { refuse(device); }
void fill_bytes(int device, void*, int, std::size_t, Stream) { refuse(device); }
void call_on_host(int device, void (*)(void*), void*, Stream) { refuse(device); }
void wait_for_all(int) noexcept {}
void synchronize(int device, Stream) { refuse(device); }

void square_product(int device, const float*, const float*, float*, int, void*, Stream) { refuse(device); }

}  // namespace lamina::cuda

namespace lamina {

template <class Problem>
std::span<const Kernel<Problem>> Kernels<Problem>::cuda() {
  return {};
}

#define LAMINA_NO_KERNELS(Problem) template struct Kernels<Problem>;
LAMINA_ALL_PROBLEMS(LAMINA_NO_KERNELS)
#undef LAMINA_NO_KERNELS

}  // namespace lamina
