#include "lamina/cuda/runtime/stream.h"

#include <nvtx3/nvToolsExt.h>

#include "lamina/base/error.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/tensor/device_memory.h"

namespace lamina::cuda {
namespace {

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t native_event(void* event) { return static_cast<cudaEvent_t>(event); }

cudaStream_t create_stream(int device) {
  detail::require_cuda_device(device);
  const DeviceGuard guard(device);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

cudaEvent_t create_event(int device) {
  detail::require_cuda_device(device);
  const DeviceGuard guard(device);
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event));
  return event;
}

void* allocate_pinned(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  if (const cudaError_t status = cudaMallocHost(&memory, bytes); status != cudaSuccess) {
    (void)cudaGetLastError();
    detail::fail(ErrorKind::out_of_memory, "cannot pin ", bytes, " bytes of host memory: ", cudaGetErrorString(status));
  }
  return memory;
}

cudaGraphExec_t instantiate(int device, const Function<void(Stream)>& record) {
  const OwnedStream stream(device);
  const DeviceGuard guard(device);
  // Thread-local: another thread that allocates meanwhile must not break this capture, nor this one that thread.
  check(cudaStreamBeginCapture(native(stream.get()), cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  try {
    record(stream.get());
  } catch (...) {
    (void)cudaStreamEndCapture(native(stream.get()), &graph);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(native(stream.get()), &graph));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  (void)cudaGraphDestroy(graph);
  check(status);
  return executable;
}

/// Destructors also run while the process ends and the driver is gone: a failure there has nobody to tell.
template <class Destroy>
void on_device(int device, const Destroy& destroy) noexcept {
  try {
    const DeviceGuard guard(device);
    destroy();
  } catch (const Error&) {
  }
}

}  // namespace

void DestroyStream::operator()(void* stream) const noexcept {
  on_device(device, [&] { (void)cudaStreamDestroy(native(stream)); });
}
void DestroyEvent::operator()(void* event) const noexcept {
  on_device(device, [&] { (void)cudaEventDestroy(native_event(event)); });
}
void FreePinned::operator()(void* memory) const noexcept { (void)cudaFreeHost(memory); }
void DestroyGraph::operator()(void* graph) const noexcept {
  on_device(device, [&] { (void)cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); });
}

OwnedStream::OwnedStream(int device) : handle_(create_stream(device), {device}) {}

Event::Event(int device) : handle_(create_event(device), {device}) {}

void Event::record(Stream stream) {
  const DeviceGuard guard(device());  // whose default stream null is
  check(cudaEventRecord(native_event(handle_.get()), native(stream)));
}

void Event::hold(Stream stream) const {
  const DeviceGuard guard(device());
  check(cudaStreamWaitEvent(native(stream), native_event(handle_.get()), 0));
}

bool Event::reached() const {
  const DeviceGuard guard(device());
  const cudaError_t status = cudaEventQuery(native_event(handle_.get()));
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();  // no error, but kept as one
    return false;
  }
  check(status);
  return true;
}

void Event::synchronize() const {
  const DeviceGuard guard(device());
  check(cudaEventSynchronize(native_event(handle_.get())));
}

float Event::milliseconds(const Event& from, const Event& to) {
  to.synchronize();
  const DeviceGuard guard(to.device());
  float result = 0;
  check(cudaEventElapsedTime(&result, native_event(from.handle_.get()), native_event(to.handle_.get())));
  return result;
}

PinnedBuffer::PinnedBuffer(std::size_t bytes) : memory_(allocate_pinned(bytes)), bytes_(bytes) {}

CapturedGraph::CapturedGraph(int device, const Function<void(Stream)>& record)
    : handle_(instantiate(device, record), {device}) {}

void CapturedGraph::launch(Stream stream) const {
  const DeviceGuard guard(handle_.get_deleter().device);
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(handle_.get()), native(stream)));
}

bool is_capturing(int device, Stream stream) {
  if (stream == nullptr) return false;
  const DeviceGuard guard(device);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(native(stream), &status));
  return status != cudaStreamCaptureStatusNone;
}

ProfilerRange::ProfilerRange(const char* name) { (void)nvtxRangePushA(name); }
ProfilerRange::~ProfilerRange() { (void)nvtxRangePop(); }

void upload(int device, void* destination, const void* host, std::size_t bytes, Stream stream) {
  const DeviceGuard guard(device);
  check(cudaMemcpyAsync(destination, host, bytes, cudaMemcpyHostToDevice, native(stream)));
}

void download(int device, void* host, const void* source, std::size_t bytes, Stream stream) {
  const DeviceGuard guard(device);
  check(cudaMemcpyAsync(host, source, bytes, cudaMemcpyDeviceToHost, native(stream)));
}

void copy_on_device(int device, void* destination, const void* source, std::size_t bytes, Stream stream) {
  const DeviceGuard guard(device);
  check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToDevice, native(stream)));
}

void fill_bytes(int device, void* destination, int value, std::size_t bytes, Stream stream) {
  const DeviceGuard guard(device);
  check(cudaMemsetAsync(destination, value, bytes, native(stream)));
}

void call_on_host(int device, void (*function)(void* argument), void* argument, Stream stream) {
  const DeviceGuard guard(device);
  check(cudaLaunchHostFunc(native(stream), function, argument));
}

void wait_for_all(int device) noexcept {
  on_device(device, [] { (void)cudaDeviceSynchronize(); });
}

void synchronize(int device, Stream stream) {
  const DeviceGuard guard(device);
  check(cudaStreamSynchronize(native(stream)));
}

}  // namespace lamina::cuda
