#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "gil.h"
#include "graph.h"
#include "images.h"
#include "lamina/base/error.h"
#include "lamina/base/process/forks.h"
#include "lamina/base/version.h"
#include "lamina/tensor/device.h"
#include "lamina/tensor/device_memory.h"
#include "model.h"
#include "plan.h"
#include "pool.h"
#include "result.h"

namespace lamina::python {

NB_MODULE(_core, m) {
  m.doc() = "Lamina's library. Import lamina, which has all of it that is public.";
  nb::set_leak_warnings(false);  // a daemon thread may well have a plan when the interpreter ends
  (void)lamina::detail::fork_generation();
  watch_for_the_end();
  nb::exception<Error> error(m, "Error");
  error.attr("__doc__") = "What Lamina reports: the message says the place, what was expected and what was found.";
  bind_result(m);
  bind_images(m);
  bind_plan(m);
  bind_graph(m);
  bind_model(m);
  bind_pool(m, error);
  m.def("version", [] { return std::string(version()); });
  m.def(
      "best_device", [] { return to_string(best_device()); },
      "\"cuda:0\" where there is a GPU that this build can use, else \"cpu\".");
  m.def("cuda_device_count", &detail::cuda_device_count, "GPUs that this build can use here.");
  m.def("cuda_unavailable_reason", &detail::cuda_unavailable_reason, "Why there are none; empty if there are.");
}

}  // namespace lamina::python
