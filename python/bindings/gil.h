#pragma once

#include <nanobind/nanobind.h>

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

/// Has the interpreter say, by atexit, when it is about to end.
void watch_for_the_end();

}  // namespace lamina::python
