#include "lamina/kernel/operator.h"

#include <bit>

#include "lamina/base/error.h"
#include "lamina/base/thread_pool.h"

namespace lamina {

void detail::fail_by(const Fault& fault) {
  const std::int64_t found = fault.found, of = fault.of;
  switch (fault.kind) {
    case Fault::outside: fail("index ", found, " is outside of an extent of ", of);
    case Fault::beyond_room: fail("this run has ", found, " along an axis where there is room for ", of);
    case Fault::not_equal: fail("this run has ", found, " along an axis where it must have ", of);
    case Fault::too_few: fail("this run has ", found, " along an axis where it must have ", of, " or more");
    case Fault::no_overlap: fail("expected an overlap of 0 to 1, got ", std::bit_cast<double>(found));
    default: fail("this run has ", found, ", which ", of, " does not divide");
  }
}

void Execution::share_out(std::int64_t count, const void* body,
                          void (*call)(const void* body, std::int64_t index, int worker)) const {
  if (pool != nullptr) {
    pool->parallel_for(count, [=](std::int64_t index, int worker) { call(body, index, worker); });
    return;
  }
  for (std::int64_t index = 0; index < count; ++index) call(body, index, 0);
}

}  // namespace lamina
