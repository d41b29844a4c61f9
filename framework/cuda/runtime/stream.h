#pragma once

#include <cstddef>
#include <memory>

#include "lamina/base/function.h"

/// Streams, events, pinned memory, asynchronous copies and captured work, without a CUDA type: no_cuda.cpp has the
/// same symbols. Everything here throws Error when CUDA refuses, works from any thread whatever device is current
/// there, and leaves that one current.
namespace lamina::cuda {

/// A cudaStream_t; null is the default stream.
using Stream = void*;

struct DestroyStream {
  int device = 0;
  void operator()(void* stream) const noexcept;
};
struct DestroyEvent {
  int device = 0;
  void operator()(void* event) const noexcept;
};
struct FreePinned {
  void operator()(void* memory) const noexcept;
};
struct DestroyGraph {
  int device = 0;
  void operator()(void* graph) const noexcept;
};

/// A stream of one's own that does not wait for the default stream. Move-only.
class OwnedStream {
 public:
  explicit OwnedStream(int device);
  Stream get() const { return handle_.get(); }
  int device() const { return handle_.get_deleter().device; }

 private:
  std::unique_ptr<void, DestroyStream> handle_;
};

/// A point in the work of a stream of its device. Move-only.
class Event {
 public:
  explicit Event(int device);
  /// `stream` is one of the event's device; null: that device's default stream.
  void record(Stream stream);
  /// Makes `stream` wait, on the device, until the recorded point is reached.
  void hold(Stream stream) const;
  /// Whether the recorded point is reached.
  bool reached() const;
  /// Waits on the host.
  void synchronize() const;
  /// Milliseconds on the device between two recorded points; waits for the later one.
  static float milliseconds(const Event& from, const Event& to);

 private:
  int device() const { return handle_.get_deleter().device; }

  std::unique_ptr<void, DestroyEvent> handle_;
  int device_ = 0;
};

/// Host memory that the device reads and writes directly: the only kind that asynchronous copies overlap with.
/// Move-only.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(std::size_t bytes);
  void* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, FreePinned> memory_;
  std::size_t bytes_ = 0;
};

/// Work recorded once and launched many times with one call. Move-only.
class CapturedGraph {
 public:
  /// Runs `record` on a capturing stream of `device`: what it enqueues there is recorded, not executed. It must not
  /// allocate or wait. Other threads may go on using the device.
  CapturedGraph(int device, const Function<void(Stream)>& record);
  /// `stream` is one of the same device; null: its default stream.
  void launch(Stream stream) const;

 private:
  std::unique_ptr<void, DestroyGraph> handle_;
};

/// Whether what is enqueued on `stream` is being recorded by its owner. Never the default stream.
bool is_capturing(int device, Stream stream);

/// Marks a span of host time in Nsight's timelines (NVTX); costs a branch when nobody profiles. Ranges nest.
class ProfilerRange {
 public:
  explicit ProfilerRange(const char* name);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
};

/// Enqueue copies of `bytes` bytes and return; the host memory must stay until the stream has got there, and should
/// be pinned. `device` is the device of `stream` (null: that device's default stream).
void upload(int device, void* destination, const void* host, std::size_t bytes, Stream stream);
void download(int device, void* host, const void* source, std::size_t bytes, Stream stream);
void copy_on_device(int device, void* destination, const void* source, std::size_t bytes, Stream stream);

/// Enqueues setting `bytes` bytes to `value`.
void fill_bytes(int device, void* destination, int value, std::size_t bytes, Stream stream);

/// Enqueues a call of `function`, in a thread of the driver: it must not throw, nor call CUDA.
void call_on_host(int device, void (*function)(void* argument), void* argument, Stream stream);

/// Waits until all streams of the device are done, whatever failed in them.
void wait_for_all(int device) noexcept;

/// Waits until everything enqueued on `stream` so far is done, and reports what failed in it.
void synchronize(int device, Stream stream);

}  // namespace lamina::cuda
