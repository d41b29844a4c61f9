#pragma once

#include <set>
#include <string>
#include <vector>

#include "lamina/cuda/map/functions.h"
#include "lamina/cuda/map/schedule.h"
#include "lamina/kernel/map/map.h"

namespace lamina::cuda {

/// A Map as a kernel. Its parameters are pointers: the inputs, the outputs, the tables (32 bits an entry) and, where
/// blocks meet, the workspace and the counters, which begin at 0 and are 0 again when it ends. Where they do not, the
/// last one is 64 bits: 1 if it runs beside the kernel before it, and 2 if it does beside the next.
struct MapKernel {
  std::string text;                    ///< the entry
  std::set<std::string> called;        ///< functions that must stand before it in a module
  std::int64_t blocks = 1, parts = 1;  ///< the grid: x, y
  int threads = 256;
  int inputs = 0, outputs = 0;
  std::vector<const MapView::Table*> tables;  ///< of the problem that it was made of
  std::int64_t workspace = 0, counters = 0;   ///< bytes
};

/// The Map must be simplified, and the schedule of it. `architecture`: compute capability, such as 90.
MapKernel generate(const MapProblem& problem, const MapSchedule& schedule, const MapAlignment& alignment,
                   const PtxFunctions& functions, std::string_view name, int architecture);

}  // namespace lamina::cuda
