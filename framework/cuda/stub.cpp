// Stands in for the CUDA backend in a build without the CUDA toolkit: the same symbols, and one reason for all.

#include "lamina/tensor/device_memory.h"
#include "lamina/tensor/error.h"

namespace lamina::detail {
namespace {

constexpr const char* reason = "this build of Lamina has no CUDA support (configure with -DLAMINA_CUDA=ON)";

}  // namespace

int cuda_device_count() noexcept { return 0; }

std::string cuda_unavailable_reason() { return reason; }

void require_cuda_device(int index) { fail("cuda:", index, " cannot be used: ", reason); }

void* device_allocate(Device device, std::size_t) { fail(device, " cannot be used: ", reason); }

void device_free(Device, void*) noexcept {}

void copy_bytes(void*, Device to, const void*, Device from, std::size_t) {
  fail("cannot copy from ", from, " to ", to, ": ", reason);
}

}  // namespace lamina::detail
