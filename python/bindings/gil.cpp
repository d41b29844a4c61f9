#include "gil.h"

#include <unistd.h>

#include <atomic>
#include <thread>

namespace lamina::python {
namespace {

std::atomic<bool> ending = false;
std::thread::id last_thread;     // which ends the interpreter
std::atomic<int> returning = 0;  // threads that are asking for the GIL

void end() {
  last_thread = std::this_thread::get_id();
  ending = true;
  // Those that asked before are let in; none asks after.
  while (returning > 0) {
    PyThreadState* state = PyEval_SaveThread();
    std::this_thread::yield();
    PyEval_RestoreThread(state);
  }
}

}  // namespace

WithoutGil::WithoutGil() : state_(PyEval_SaveThread()) {}

WithoutGil::~WithoutGil() {
  ++returning;
  if (ending && std::this_thread::get_id() != last_thread) {
    --returning;
    while (true) (void)pause();
  }
  PyEval_RestoreThread(state_);
  --returning;
}

WithGil::WithGil() {
  ++returning;
  held_ = !ending;
  if (held_) state_ = PyGILState_Ensure();
  --returning;
}

WithGil::~WithGil() {
  if (held_) PyGILState_Release(state_);
}

void watch_for_the_end() { nanobind::module_::import_("atexit").attr("register")(nanobind::cpp_function(&end)); }

}  // namespace lamina::python
