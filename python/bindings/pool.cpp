#include "pool.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>

#include "gil.h"
#include "lamina/base/error.h"
#include "lamina/base/process/forks.h"
#include "lamina/pool/plan_pool.h"
#include "options.h"
#include "plan.h"
#include "result.h"

namespace lamina::python {
namespace {

/// A request on its way: what Python lent for it, and the future that waits for the answer. Made and destroyed with the
/// GIL held.
struct Pending {
  std::vector<Lent> inputs;
  nb::object future;
  std::shared_ptr<NotFinite> not_finite;

  void answer(const Plan& plan, PoolAnswer answer) {
    if (!nb::cast<bool>(future.attr("set_running_or_notify_cancel")())) return;
    if (!answer.error.empty()) {
      future.attr("set_exception")(error_class(answer.kind)(in_pythons_words(answer.error)));
      return;
    }
    try {
      if (const std::string odd = not_finite->found(plan, answer.outputs); !odd.empty()) NotFinite::warn(odd);
    } catch (const nb::python_error& error) {  // where warnings are errors
      future.attr("set_exception")(error.value());
      return;
    }
    future.attr("set_result")(results_of(answer.outputs));
  }
};

class PyPool {
 public:
  PyPool(const Graph& graph, const CompileOptions& compile, const PoolOptions& options)
      : pool_(std::make_unique<PlanPool>(graph, compile, options)), generation_(detail::fork_generation()) {}
  PyPool(const PyPool&) = delete;
  PyPool& operator=(const PyPool&) = delete;

  ~PyPool() {
    if (generation_ != detail::fork_generation()) {
      (void)pool_.release();  // its threads are the parent's
      return;
    }
    const WithoutGil release;  // the pool's threads ask for it to answer
    pool_.reset();
  }

  PlanPool& pool() const {
    if (generation_ == detail::fork_generation()) return *pool_;
    detail::fail("pool: made before this process was forked; make it in the child, whose threads and GPUs are its own");
  }

  void submit(nb::handle inputs, nb::object future, bool copy) {
    auto pending = std::make_unique<Pending>(take_inputs(pool().plan(), inputs), std::move(future), not_finite_);
    std::vector<Tensor> tensors = tensors_of(pending->inputs);
    if (copy) {
      {
        const WithoutGil release;
        for (Tensor& tensor : tensors) {
          if (tensor.device().is_cpu()) tensor = tensor.clone();  // others are refused
        }
      }
      pending->inputs.clear();
    }
    // A std::function has to be copyable, and what Python lent goes back with the GIL held.
    Pending* request = pending.release();
    try {
      const WithoutGil release;
      pool_->submit(std::move(tensors), [request, &plan = pool_->plan()](PoolAnswer answer) {
        const WithGil gil;
        if (!gil.held()) return;  // the interpreter is gone, and with it who would wait for the answer
        const std::unique_ptr<Pending> owner(request);
        try {
          owner->answer(plan, std::move(answer));
        } catch (nb::python_error& error) {
          error.discard_as_unraisable("lamina.Pool");
        }
      });
    } catch (...) {
      delete request;  // there is no answer then
      throw;
    }
  }

  void close() {
    const WithoutGil release;
    pool().close();
  }

 private:
  std::shared_ptr<NotFinite> not_finite_ = std::make_shared<NotFinite>();
  std::unique_ptr<PlanPool> pool_;
  unsigned generation_;
};

std::unique_ptr<PyPool> make_pool(const Graph& graph, const Preprocess* preprocess, const std::string& devices,
                                  int plans_per_device, std::vector<std::int64_t> batches, double max_delay,
                                  std::int64_t max_queue, bool wait_when_full, const nb::kwargs& fields) {
  CompileOptions compile = options_from(fields, preprocess);
  if (!(max_delay >= 0 && max_delay < 1e9))
    throw Error(detail::concat("max_delay: expected seconds of 0 or more, got ", max_delay));
  const auto delay = std::chrono::microseconds(static_cast<std::int64_t>(max_delay * 1e6));
  const bool all = devices == "all";
  const PoolOptions options = {.devices = parse_devices(all ? (best_device().is_cuda() ? "cuda:all" : "cpu") : devices),
                               .plans_per_device = plans_per_device,
                               .batches = std::move(batches),
                               .max_delay = delay,
                               .max_queue = max_queue,
                               .wait_when_full = wait_when_full};
  return interruptible(compile.stop, [&] { return std::make_unique<PyPool>(graph, compile, options); });
}

}  // namespace

void bind_pool(nb::module_& m) {
  nb::class_<PoolWorker>(m, "PoolWorker", "What a plan of the pool has done.")
      .def_prop_ro("device", [](const PoolWorker& self) { return to_string(self.device); })
      .def_ro("batches", &PoolWorker::batches)
      .def_ro("images", &PoolWorker::images)
      .def_ro("lost", &PoolWorker::lost, "Empty, or why its device is used no more.")
      .def("__repr__", [](const PoolWorker& self) {
        return detail::concat("<lamina.PoolWorker on ", self.device, ": ", self.images, " images in ", self.batches,
                              " batches", self.lost.empty() ? "" : ", lost: ", self.lost, '>');
      });
  nb::class_<PyPool>(m, "PlanPool", "The library's pool; lamina.Pool is how Python has it.")
      .def("submit", &PyPool::submit, nb::arg("inputs").none(), nb::arg("future"), nb::arg("copy"),
           nb::sig("def submit(self, inputs: typing.Any, future: concurrent.futures.Future[typing.Any], "
                   "copy: bool) -> None"))
      .def("close", &PyPool::close)
      .def_prop_ro(
          "input_shapes", [](const PyPool& self) { return to_python(self.pool().plan().input_shapes()); },
          nb::sig("def input_shapes(self) -> tuple[tuple[int, ...], ...]"))
      .def_prop_ro(
          "output_shapes", [](const PyPool& self) { return to_python(self.pool().plan().output_shapes()); },
          nb::sig("def output_shapes(self) -> tuple[tuple[int, ...], ...]"))
      .def_prop_ro("max_batch", [](const PyPool& self) { return self.pool().max_batch(); })
      .def_prop_ro("waiting", [](const PyPool& self) { return self.pool().waiting(); })
      .def(
          "workers",
          [](const PyPool& self) {
            nb::list workers;
            for (PoolWorker& worker : self.pool().workers()) workers.append(nb::cast(std::move(worker)));
            return workers;
          },
          nb::sig("def workers(self) -> list[PoolWorker]"));
  m.def("make_pool", &make_pool, nb::arg("graph"), nb::arg("preprocess").none(), nb::arg("devices"),
        nb::arg("plans_per_device"), nb::arg("batches"), nb::arg("max_delay"), nb::arg("max_queue"),
        nb::arg("wait_when_full"), nb::arg("options"),
        nb::sig(
            "def make_pool(graph: Graph, preprocess: Preprocess | None, devices: str, plans_per_device: int, batches: "
            "collections.abc.Sequence[int], max_delay: float, max_queue: int, wait_when_full: bool, **options: "
            "typing.Any) -> PlanPool"));
}

}  // namespace lamina::python
