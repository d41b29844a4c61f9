#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>
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
/// as Ctrl-C does, `stop`, which the work has to heed, is set and that is raised. It is set too when so many seconds
/// are over, and when the token that was there before is.
template <class Work>
auto interruptible(std::stop_token& stop, const Work& work, std::optional<double> seconds = {}) {
  using Seconds = std::chrono::duration<double>;
  constexpr Seconds tick(0.02);
  const auto began = std::chrono::steady_clock::now();
  std::stop_source source;
  const std::stop_callback given(stop, [&source] { (void)source.request_stop(); });
  stop = source.get_token();
  const WithoutGil release;
  std::future<decltype(work())> result;
  try {
    result = std::async(std::launch::async, work);
  } catch (const std::system_error&) {  // the system has no more threads
    return work();
  }
  while (true) {
    const Seconds passed = std::chrono::steady_clock::now() - began, left = seconds ? Seconds(*seconds) - passed : tick;
    if (left <= Seconds(0)) (void)source.request_stop();
    const Seconds wait = left > Seconds(0) ? std::min(left, tick) : tick;
    if (result.wait_for(wait) == std::future_status::ready) return result.get();
    const WithGil gil;
    if (!gil.held() || PyErr_CheckSignals() == 0) continue;
    source.request_stop();
    throw nanobind::python_error();  // once the future has waited for the work
  }
}

/// Has the interpreter say, by atexit, when it is about to end.
void watch_for_the_end();

}  // namespace lamina::python
