#pragma once

#include <lamina/lamina.h>

#include <functional>

namespace lamina::app {

/// Times of one call, in milliseconds.
struct Timing {
  double median = 0;
  double p10 = 0;  ///< a tenth of the samples were faster
  double p90 = 0;
  int samples = 0;
};

/// Calls `call(i, stream)` again and again, i counting up so that the caller can rotate its buffers, and times it.
///
/// On the CPU every call is timed by itself, after a warm-up. On a GPU device events time either every call, or, when
/// `per_graph` is more than 1, launches of one CUDA graph of that many calls: what a call costs inside a captured
/// network, without the launch from the host. Runs for about `seconds`.
Timing time_calls(Device device, int per_graph, double seconds, const std::function<void(int, void* stream)>& call);

}  // namespace lamina::app
