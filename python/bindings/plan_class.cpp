#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gil.h"
#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "options.h"
#include "plan.h"
#include "result.h"

namespace lamina::python {
namespace {

nb::tuple names_of(std::span<const std::string> names) {
  nb::list list;
  for (const std::string& each : names) list.append(each);
  return nb::tuple(list);
}

nb::tuple types_of(std::span<const DType> types) {
  nb::list list;
  for (const DType type : types) list.append(std::string(name(type)));
  return nb::tuple(list);
}

/// "image f32 [8, 3, 224, 224]"
std::string ports(std::span<const std::string> names, std::span<const Shape> shapes, std::span<const DType> types) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += detail::concat(i == 0 ? "" : ", ", names[i], ' ', types[i], ' ', shapes[i]);
  }
  return text;
}

std::string plan_text(const PyPlan& self) {
  const Plan& p = self.plan();
  const CompileOptions& options = p.options();
  return detail::concat("<lamina.Plan ", ports(p.input_names(), p.input_shapes(), p.input_dtypes()), " -> ",
                        ports(p.output_names(), p.output_shapes(), p.output_dtypes()), " on ", options.device, ", ",
                        name(options.precision), '>');
}

/// A run as Python calls it. What does not fit is taken here too, to be told in the words of those who call: nanobind's
/// say which arguments C++ has.
nb::object run(PyPlan& self, nb::handle x, const nb::args& more, nb::handle out, nb::handle stream, nb::handle stop,
               nb::handle time, const nb::kwargs& others) {
  if (more.size() > 0)
    throw nb::type_error(
        "plan: expected x, and out, stream, stop and time by name; several inputs are a tuple, plan((x, y))");
  for (const auto& other : others) {
    const std::vector<std::string> known = {"x", "out", "stream", "stop", "time"};
    const std::string name = nb::str(other.first).c_str(), nearest = detail::nearest_text(name, known);
    throw nb::type_error(detail::concat("plan: there is no option ", detail::quote(name), nearest).c_str());
  }
  if (!stop.is_none() && !nb::isinstance<std::stop_source>(stop))
    throw nb::type_error("stop: expected a lamina.Stop or None");
  return self.run(x, out, stream, stop.is_none() ? nullptr : nb::cast<const std::stop_source*>(stop),
                  time.is_none() ? std::nullopt : std::optional(as<double>(time, "time", "seconds or None")));
}

/// The tensor is part of the plan and the next run writes over it, so Python gets a copy.
nb::object activation(const PyPlan& self, const std::string& node) {
  Tensor copy;
  {
    const WithoutGil release;
    copy = self.plan().activation(node).to(Device::cpu()).clone();
  }
  return to_python(Result{std::move(copy)});
}

/// A dict for each step.
nb::list profile(const PyPlan& self, nb::handle inputs, int runs) {
  const std::vector<Lent> lent = take_inputs(self.plan(), inputs);
  std::vector<StepTime> steps;
  {
    const WithoutGil release;
    steps = self.plan().profile(tensors_of(lent), runs);
  }
  nb::list result;
  for (const StepTime& step : steps) {
    nb::dict row;
    row["name"] = step.name;
    row["fused"] = step.fused;
    row["kernel"] = step.kernel;
    row["milliseconds"] = step.milliseconds;
    row["flops"] = step.flops;
    row["bytes"] = step.bytes;
    result.append(row);
  }
  return result;
}

void bind_memory(nb::module_& m) {
  nb::class_<PlanMemory>(m, "PlanMemory", "Bytes that a plan holds on its device.")
      .def_ro("activations", &PlanMemory::activations, "the arena that all activations share")
      .def_ro("workspace", &PlanMemory::workspace, "scratch memory, used by all steps in turn")
      .def_ro("parameters", &PlanMemory::parameters,
              "packed copies of weights, each once; those used in place count nothing")
      .def_ro("shared", &PlanMemory::shared, "of the parameters: what other plans use too, now")
      .def_prop_ro("total", &PlanMemory::total)
      .def("__repr__", [](const PlanMemory& self) {
        return detail::concat("PlanMemory(activations=", self.activations, ", workspace=", self.workspace,
                              ", parameters=", self.parameters, ", shared=", self.shared, ')');
      });
}

}  // namespace

#define LAMINA_RUN                                                                                                     \
  "(self, x: typing.Any, *, out: typing.Any = None, stream: typing.Any = None, stop: Stop | None = None, time: float " \
  "| "                                                                                                                 \
  "None = None) -> typing.Any"

void bind_plan(nb::module_& m) {
  bind_memory(m);
  nb::class_<std::stop_source>(m, "Stop", "What ends runs that were given it. It stays requested.")
      .def(OfNothing())
      .def(
          "request", [](std::stop_source& self) { (void)self.request_stop(); },
          "Ends the runs that were given this, from any thread.")
      .def_prop_ro("requested", [](const std::stop_source& self) { return self.stop_requested(); });
  constexpr const char* run_doc =
      "Runs the network.\n\n"
      "x: an array of the shape and type that input_shapes and input_dtypes say, e.g. float32 [N, C, H, W], or uint8\n"
      "[N, H, W, 3] with photos=; several as a tuple in the order of input_names, or a dict by name. Anything with "
      "the\n"
      "buffer protocol or __dlpack__, on the host or on the plan's device. It has to be contiguous and is used where "
      "it\n"
      "is; nothing is cast. Fewer images than the batch may be given.\n\n"
      "out: arrays to write the outputs to, which are then returned. Otherwise the results are new: NumPy arrays for\n"
      "arrays of the host, lamina.Tensor on the device for arrays of a GPU, a tuple of them if there are several "
      "outputs.\n\n"
      "stream: of CUDA, to enqueue the work on (a number, or PyTorch's or CuPy's object); the default stream if None.\n"
      "The run waits there for what x is being computed by. With arrays of a GPU it returns before the work is "
      "done.\n\n"
      "stop: once another thread requests it, the run ends with Stopped, before its next step; on a GPU before it is "
      "begun.\n"
      "time: so many seconds after which it ends likewise. Ctrl-C ends a long run on a CPU.";
  nb::class_<PyPlan>(m, "Plan",
                     "A network compiled for one device, batch and precision. One thread at a time may use it: compile "
                     "one for each,\nthey share the weights. The GIL is released while it runs.")
      .def("__call__", &run, nb::arg("x") = nb::none(), nb::arg("more"), nb::arg("out") = nb::none(),
           nb::arg("stream") = nb::none(), nb::arg("stop") = nb::none(), nb::arg("time") = nb::none(),
           nb::arg("others"), nb::sig("def __call__" LAMINA_RUN), run_doc)
      .def("run", &run, nb::arg("x") = nb::none(), nb::arg("more"), nb::arg("out") = nb::none(),
           nb::arg("stream") = nb::none(), nb::arg("stop") = nb::none(), nb::arg("time") = nb::none(),
           nb::arg("others"), nb::sig("def run" LAMINA_RUN), run_doc)
      .def_prop_ro(
          "input_names", [](const PyPlan& self) { return names_of(self.plan().input_names()); },
          nb::sig("def input_names(self) -> tuple[str, ...]"))
      .def_prop_ro(
          "output_names", [](const PyPlan& self) { return names_of(self.plan().output_names()); },
          nb::sig("def output_names(self) -> tuple[str, ...]"))
      .def_prop_ro(
          "input_shapes", [](const PyPlan& self) { return to_python(self.plan().input_shapes()); },
          nb::sig("def input_shapes(self) -> tuple[tuple[int, ...], ...]"))
      .def_prop_ro(
          "output_shapes", [](const PyPlan& self) { return to_python(self.plan().output_shapes()); },
          nb::sig("def output_shapes(self) -> tuple[tuple[int, ...], ...]"))
      .def_prop_ro(
          "input_dtypes", [](const PyPlan& self) { return types_of(self.plan().input_dtypes()); },
          nb::sig("def input_dtypes(self) -> tuple[str, ...]"), "\"f32\", \"u8\", ... of each input")
      .def_prop_ro(
          "output_dtypes", [](const PyPlan& self) { return types_of(self.plan().output_dtypes()); },
          nb::sig("def output_dtypes(self) -> tuple[str, ...]"))
      .def_prop_ro("batch", [](const PyPlan& self) { return self.plan().options().batch; })
      .def_prop_ro(
          "batched", [](const PyPlan& self) { return self.plan().batched(); },
          "Whether each image is by itself: then fewer than the batch may be given.")
      .def_prop_ro("precision", [](const PyPlan& self) { return std::string(name(self.plan().options().precision)); })
      .def_prop_ro("device", [](const PyPlan& self) { return to_string(self.plan().options().device); })
      .def_prop_ro("memory", [](const PyPlan& self) { return self.plan().memory(); })
      .def(
          "summary", [](const PyPlan& self) { return self.plan().summary(); },
          "A table of the steps: node, kernel, what was fused, output shape, FLOPs, bytes.")
      .def("profile", &profile, nb::arg("x"), nb::arg("runs") = 10,
           nb::sig("def profile(self, x: typing.Any, runs: int = 10) -> list[dict[str, typing.Any]]"),
           "Runs the network `runs` times and times each step by itself, on the device's clock: a dict for each step, "
           "of "
           "its name,\nfused (the nodes computed with it), kernel, milliseconds (the median), flops, and bytes that it "
           "reads and writes at least.")
      .def("activation", &activation, nb::arg("node"), nb::sig("def activation(self, node: str) -> typing.Any"),
           "A copy of what the last run left as the output of any node; from a plan compiled with keep_all=True.")
      .def("__repr__", &plan_text);
}

}  // namespace lamina::python
