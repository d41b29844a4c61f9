#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "lamina/plan/plan.h"
#include "lent.h"
#include "not_finite.h"

namespace lamina::python {

/// A Plan as Python has it. The GIL is released while it runs, so `plan` is one thread's at a time by its own check.
class PyPlan {
 public:
  explicit PyPlan(Plan plan);
  PyPlan(const PyPlan&) = delete;
  PyPlan& operator=(const PyPlan&) = delete;
  ~PyPlan();

  /// Throws Error of one on a GPU in a process that was forked since: GPUs stay with the parent.
  Plan& plan() const;

  nb::object run(nb::handle inputs, nb::handle out, nb::handle stream, const std::stop_source* stop,
                 std::optional<double> time);

 private:
  /// What a run on a GPU still reads or writes, kept until it has: Python may drop its arrays at once.
  struct InFlight {
    std::shared_ptr<const cuda::Event> done;
    cuda::Stream stream;
    std::vector<Lent> arrays;
    std::shared_ptr<const void> owner;  ///< of the stream: no other gets its number
  };

  std::vector<Lent> take_outputs(nb::handle out, cuda::Stream stream) const;
  std::vector<Tensor> new_outputs(std::span<const Tensor> inputs, Device device) const;
  /// Makes `stream` wait for the run before, which uses the same memory of the plan, where that was on another stream.
  void follow(cuda::Stream stream) const;

  std::unique_ptr<Plan> plan_;
  NotFinite not_finite_;
  std::deque<InFlight> in_flight_;
  unsigned generation_;
  std::atomic<bool> slow_ = true;  ///< whether runs take so long that Ctrl-C is to end one; until it is known
};

/// What ends a run: that, and so many seconds. Throws Error of what is no time.
Limits limits_of(const std::stop_source* stop, std::optional<double> time);

/// The inputs of a run: an array, several in the plan's order, or a dict by name. Throws Error naming the one that is
/// missing, too many, or not usable.
std::vector<Lent> take_inputs(const Plan& plan, nb::handle inputs, cuda::Stream stream = nullptr);
std::vector<Tensor> tensors_of(std::span<const Lent> lent);
/// One output as it is, several as a tuple.
nb::object results_of(std::span<const Tensor> outputs, cuda::Stream stream = nullptr,
                      const std::shared_ptr<const cuda::Event>& done = nullptr,
                      const std::shared_ptr<const void>& owner = nullptr);

void bind_plan(nb::module_& m);

}  // namespace lamina::python
