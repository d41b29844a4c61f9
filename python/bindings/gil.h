#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <future>
#include <stop_token>
#include <system_error>

namespace lamina::python {

/// Lets other threads of Python run while this lives: what nanobind's gil_scoped_release does, but for the end of the
/// interpreter. CPython before 3.14 then ends a daemon thread where it asks for the GIL, by unwinding its stack, which
/// destructors do not survive. A thread that comes back then waits here for the end of the process instead.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

/// Takes the GIL on a thread that is not Python's while this lives, unless the interpreter is about to end.
class WithGil {
 public:
  WithGil();
  ~WithGil();
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

  bool held() const { return held_; }

 private:
  bool held_ = false;
  PyGILState_STATE state_{};
};

/// What `work` returns, done without the GIL on a thread of its own, so that this one hears signals: where one raises,
/// as Ctrl-C does, `stop`, which the work has to heed, is set and that is raised.
template <class Work>
auto interruptible(std::stop_token& stop, const Work& work) {
  std::stop_source source;
  stop = source.get_token();
  const WithoutGil release;
  std::future<decltype(work())> result;
  try {
    result = std::async(std::launch::async, work);
  } catch (const std::system_error&) {  // the system has no more threads
    return work();
  }
  while (result.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) {
    const WithGil gil;
    if (!gil.held() || PyErr_CheckSignals() == 0) continue;
    source.request_stop();
    throw nanobind::python_error();  // once the future has waited for the work
  }
  return result.get();
}

/// Has the interpreter say, by atexit, when it is about to end.
void watch_for_the_end();

}  // namespace lamina::python
