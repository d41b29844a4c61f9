#include "lamina/base/process/forks.h"

#include <pthread.h>

namespace lamina::detail {
namespace {

unsigned generation = 0;

}  // namespace

unsigned fork_generation() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++generation; });
  (void)registered;
  return generation;
}

}  // namespace lamina::detail
