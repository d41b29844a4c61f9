#include "forks.h"

#include <pthread.h>

namespace lamina::python {
namespace {
unsigned generation = 0;
}

unsigned fork_generation() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++generation; });
  (void)registered;
  return generation;
}

}  // namespace lamina::python
