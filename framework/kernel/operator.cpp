#include "lamina/kernel/operator.h"

#include "lamina/base/thread_pool.h"

namespace lamina {

void Execution::share_out(std::int64_t count, const void* body,
                          void (*call)(const void* body, std::int64_t index, int worker)) const {
  if (pool != nullptr) {
    pool->parallel_for(count, [=](std::int64_t index, int worker) { call(body, index, worker); });
    return;
  }
  for (std::int64_t index = 0; index < count; ++index) call(body, index, 0);
}

}  // namespace lamina
