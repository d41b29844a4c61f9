#pragma once

#include <lamina/lamina.h>

#include <cmath>
#include <string>
#include <vector>

#include "bench/ceilings.h"
#include "bench/timer.h"
#include "json_output.h"

namespace lamina::app {

/// One algorithm at one batch and precision: a line of the table.
struct BenchResult {
  std::string algorithm, precision, kernel;
  std::string note;    ///< why it did not run; empty: it did
  bool named = false;  ///< asked for by its name, and not as one of all
  std::int64_t batch = 0;
  DType output = DType::f32;
  Timing time;
  double tflops = 0, gb_per_s = 0;
  std::size_t workspace = 0;
  double relative_l2 = NAN;     ///< of sampled outputs, against double
  double worst_of_bound = NAN;  ///< largest error over what the contract allows: 1 and above breaks it
};

/// The table, beside what the device does at best. Those of all algorithms that did not run are named in a line behind
/// it.
void print(const std::vector<BenchResult>& results, const Ceilings& ceilings);

/// The same as JSON, if it was asked for. `where` names the device. Throws Error if it cannot be written.
void write_json(const JsonOutput& output, const std::string& where, const std::vector<BenchResult>& results,
                const Ceilings& ceilings);

}  // namespace lamina::app
