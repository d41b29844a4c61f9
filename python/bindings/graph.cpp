#include "graph.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <filesystem>

#include "gil.h"
#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/graph/resolve.h"
#include "lamina/ops/op.h"
#include "lent.h"
#include "model.h"
#include "node.h"
#include "options.h"
#include "plan.h"
#include "result.h"

namespace lamina::python {
namespace {

using detail::fail;
using Self = nb::handle_t<Graph>;

/// A Value as Python has it: with its graph, as two graphs number their nodes alike.
struct PyValue {
  nb::object graph;
  Value value;
  Trial trial;
};

Graph& graph_of(nb::handle self) { return nb::cast<Graph&>(self); }

const PyValue& value_from(Self self, nb::handle value) {
  if (!nb::isinstance<PyValue>(value)) {
    throw nb::type_error(detail::concat("expected a Value, got ", nb::repr(value).c_str()).c_str());
  }
  const auto& given = nb::cast<const PyValue&>(value);
  if (!given.graph.is(self)) fail("graph: ", nb::repr(value).c_str(), " is a value of another graph");
  return given;
}

PyValue added(Self self, const std::string& name, const std::shared_ptr<Module>& module, nb::handle inputs) {
  std::vector<Value> values;
  std::vector<const Trial*> trials;
  const auto take = [&](nb::handle input) {
    const PyValue* given = input.is_none() ? nullptr : &value_from(self, input);
    values.push_back(given == nullptr ? Value() : given->value);
    trials.push_back(given == nullptr ? nullptr : &given->trial);
  };
  if (nb::isinstance<PyValue>(inputs)) {
    take(inputs);
  } else {
    for (const nb::handle input : inputs) take(input);
  }
  Trial trial = trial_of(name, module, trials);
  return {nb::borrow(self), graph_of(self).add(name, module, values), std::move(trial)};
}

PyValue add_node(Self self, const std::string& name, const std::string& op, nb::handle inputs,
                 const nb::kwargs& fields) {
  try {
    return added(self, name, module_from(op, fields), inputs);
  } catch (const Error& error) {
    constexpr std::pair<std::string_view, std::string_view> words[] = {
        {"the file has no tensor ", "expected an array or a shape, "}, {" for this node", ""}};
    const std::string message = detail::in_words(error.what(), words);
    if (message.starts_with(name + ": ")) throw;
    fail(name, ": ", message);
  }
}

DType dtype_from(const std::string& text) {
  const auto type = find_dtype(text);
  if (!type) fail("dtype: expected f32, u8, i64, ..., got \"", text, '"');
  return *type;
}

nb::list port_list(const Graph& graph, const std::vector<int>& nodes, bool shapes) {
  nb::list list;
  for (const int node : nodes) {
    const Graph::Node& n = graph.nodes()[static_cast<std::size_t>(node)];
    if (!shapes) {
      list.append(n.name);
    } else {
      list.append(n.shape ? nb::object(to_python(*n.shape)) : nb::none());
    }
  }
  return list;
}

nb::dict state_dict(const Graph& graph) {
  const Weights weights = graph.state_dict();
  nb::dict result;
  for (const std::string& name : weights.names()) {
    // The file's pages or the parameters themselves: other plans read them.
    result[name.c_str()] = to_python(Result{.tensor = weights.at(name), .read_only = true});
  }
  return result;
}

std::unique_ptr<PyPlan> compile(const Graph& graph, const Preprocess* preprocess, const nb::kwargs& fields) {
  CompileOptions options = options_from(fields, preprocess);
  return interruptible(options.stop, [&] { return std::make_unique<PyPlan>(graph.compile(options)); });
}

/// Name, shape and type of each output of such a plan, without compiling it; None for an extent that a run decides.
nb::list output_ports(const Graph& graph, const nb::kwargs& fields) {
  const CompileOptions options = options_from(fields, nullptr);
  const detail::Resolved resolved = [&] {
    const WithoutGil release;
    return detail::resolve(graph, options);
  }();
  nb::list ports;
  for (std::size_t i = 0; i < resolved.outputs.size(); ++i) {
    const detail::Network::Node& node = resolved.network[resolved.outputs[i]];
    nb::list extents;
    for (int d = 0; d < static_cast<int>(node.shape.rank()); ++d)
      resolved.network.count_of(resolved.outputs[i], d) < 0 ? extents.append(node.shape[d])
                                                            : extents.append(nb::none());
    ports.append(nb::make_tuple(resolved.output_names[i], nb::tuple(extents), std::string(name(node.dtype))));
  }
  return ports;
}

std::string graph_text(const Graph& graph) {
  std::string text = "<lamina.Graph";
  const auto append = [&](const std::vector<int>& nodes) {
    for (const int node : nodes) {
      const Graph::Node& n = graph.nodes()[static_cast<std::size_t>(node)];
      text += detail::concat(' ', n.name, ' ', n.shape ? n.shape->to_string() : "[...]");
    }
  };
  append(graph.inputs());
  text += " ->";
  append(graph.outputs());
  return detail::concat(text, ", ", graph.nodes().size(), " nodes>");
}

}  // namespace

#define LAMINA_COMPILE "(self, preprocess: Preprocess | None = None, /, **options: typing.Any) -> "

void bind_graph(nb::module_& m) {
  nb::class_<PyValue>(m, "Value", "The output of one node of one Graph.").def("__repr__", [](const PyValue& self) {
    return "<lamina.Value of node " + graph_of(self.graph).nodes()[static_cast<std::size_t>(self.value.node)].name +
           '>';
  });
  nb::class_<Graph>(m, "Graph",
                    "A network: named nodes, each an op applied to the outputs of earlier ones. A node's name is the "
                    "prefix of its\nparameters in state dicts: \"features.0\" owns \"features.0.weight\".\n\n"
                    "    g = lamina.Graph()\n"
                    "    x = g.input(\"input\", (\"N\", 3, 224, 224))\n"
                    "    x = g.add(\"features.0\", \"conv2d\", x, weight=(96, 3, 11, 11), bias=(96,), stride=4, "
                    "padding=2)\n"
                    "    x = g.add(\"features.1\", \"relu\", x)\n"
                    "    g.output(x)\n"
                    "    g.load(\"weights.safetensors\")")
      .def(OfNothing())
      .def(
          "input",
          [](Self self, std::string name, nb::handle shape, const std::string& dtype) {
            const Shape declared = shape_from(shape);
            const DType type = dtype_from(dtype);
            return PyValue{nb::borrow(self), graph_of(self).input(std::move(name), declared, type),
                           trial_of(declared, type)};
          },
          nb::arg("name"), nb::arg("shape"), nb::arg("dtype") = "f32",
          nb::sig(
              "def input(self, name: str, shape: collections.abc.Sequence[int | str], dtype: str = 'f32') -> Value"),
          "Adds an input. In its shape \"N\" is the batch, \"?\" an extent that compile() is told by input_shapes.")
      .def(
          "add", &add_node, nb::arg("name"), nb::arg("op"), nb::arg("inputs"), nb::arg("fields"),
          nb::sig("def add(self, name: str, op: str, inputs: Value | collections.abc.Sequence[Value | None], **fields: "
                  "typing.Any) -> Value"),
          "Adds a node. op and its attributes are those of model files (docs/formats.md, docs/inside/ops.md), e.g. "
          "\"conv2d\" "
          "with stride,\npadding, dilation, groups. weight, bias, running_mean and running_var are arrays, or shapes "
          "whose values load() brings.\nNone among the inputs leaves out an optional operand.")
      .def(
          "constant",
          [](Self self, std::string name, nb::handle value) {
            auto module = std::make_shared<Constant>(copy_of(value, name));
            const Value node = graph_of(self).add(std::move(name), module, std::span<const Value>());
            return PyValue{nb::borrow(self), node, {.ports = {}, .constant = std::move(module)}};
          },
          nb::arg("name"), nb::arg("value"), nb::sig("def constant(self, name: str, value: typing.Any) -> Value"),
          "Adds a tensor that is part of the network.")
      .def(
          "output", [](Self self, nb::handle value) { graph_of(self).output(value_from(self, value).value); },
          nb::arg("value"), nb::sig("def output(self, value: Value) -> None"),
          "Marks a value as an output, in the order of the calls.")
      .def(
          "load",
          [](Graph& self, nb::handle weights, std::string key, std::string strip_prefix) {
            return self.load(weights_from(weights, {.key = std::move(key), .strip_prefix = std::move(strip_prefix)}));
          },
          nb::arg("weights"), nb::kw_only(), nb::arg("key") = "", nb::arg("strip_prefix") = "",
          nb::sig("def load(self, weights: str | os.PathLike[str] | dict[str, typing.Any], *, key: str = '', "
                  "strip_prefix: str = '') -> list[str]"),
          "Sets every parameter from a weight file (.safetensors, .pth, .npz) or a dict of arrays. Returns the names "
          "that no node uses.\nkey: where the weights are in a checkpoint that has several, \"ema\". strip_prefix: "
          "what "
          "to leave out in front of their names.")
      .def("state_dict", &state_dict, nb::sig("def state_dict(self) -> dict[str, typing.Any]"),
           "Every parameter under its name, as a read-only array.")
      .def(
          "compile", &compile, nb::arg("preprocess").none() = nb::none(), nb::arg("options"),
          nb::sig("def compile" LAMINA_COMPILE "Plan"),
          "Decides shapes, fusion, memory and kernels for one device, batch and precision: lamina.CompileOptions lists "
          "the keywords.")
      .def(
          "plan_memory",
          [](const Graph& self, const Preprocess* preprocess, const nb::kwargs& fields) {
            const CompileOptions options = options_from(fields, preprocess);
            const WithoutGil release;
            return self.plan_memory(options);
          },
          nb::arg("preprocess").none() = nb::none(), nb::arg("options"),
          nb::sig("def plan_memory" LAMINA_COMPILE "PlanMemory"),
          "The bytes that compile() with these options will hold, found out without taking any on a GPU.")
      .def(
          "plan_summary",
          [](const Graph& self, const Preprocess* preprocess, const nb::kwargs& fields) {
            const CompileOptions options = options_from(fields, preprocess);
            const WithoutGil release;
            return self.plan_summary(options);
          },
          nb::arg("preprocess").none() = nb::none(), nb::arg("options"),
          nb::sig("def plan_summary" LAMINA_COMPILE "str"),
          "What Plan.summary() would say, found out without taking memory on a GPU; with description= also of a device "
          "that is not there.")
      .def(
          "summary", [](const Graph& self, std::int64_t batch) { return self.summary(batch); }, nb::arg("batch") = 1,
          "A table of the nodes: name, op, output shape, parameters, FLOPs, and the totals.")
      .def(
          "until", [](const Graph& self, const std::string& node) { return self.until(node); }, nb::arg("node"),
          "The part of this graph that computes that node.")
      .def_prop_ro("changes", &Graph::changes,
                   "Grows with every change: what was compiled before is of another network.")
      .def_prop_ro(
          "input_names", [](const Graph& self) { return nb::tuple(port_list(self, self.inputs(), false)); },
          nb::sig("def input_names(self) -> tuple[str, ...]"))
      .def_prop_ro(
          "optional_inputs",
          [](const Graph& self) { return nb::tuple(port_list(self, self.optional_inputs(), false)); },
          nb::sig("def optional_inputs(self) -> tuple[str, ...]"),
          "Names of inputs that need not be given: constants which an .onnx file lists among its inputs.")
      .def_prop_ro(
          "output_names", [](const Graph& self) { return nb::tuple(port_list(self, self.outputs(), false)); },
          nb::sig("def output_names(self) -> tuple[str, ...]"))
      .def_prop_ro(
          "input_shapes", [](const Graph& self) { return nb::tuple(port_list(self, self.inputs(), true)); },
          nb::sig("def input_shapes(self) -> tuple[tuple[int | str, ...], ...]"),
          "\"N\" is the batch, \"?\" an extent that is left open, (\"...\",) a shape of any rank.")
      .def_prop_ro(
          "input_dtypes",
          [](const Graph& self) {
            nb::list names;
            for (const int input : self.inputs()) {
              names.append(std::string(name(self.nodes()[static_cast<std::size_t>(input)].dtype)));
            }
            return nb::tuple(names);
          },
          nb::sig("def input_dtypes(self) -> tuple[str, ...]"))
      .def_prop_ro(
          "output_shapes", [](const Graph& self) { return nb::tuple(port_list(self, self.outputs(), true)); },
          nb::sig("def output_shapes(self) -> tuple[tuple[int | str, ...] | None, ...]"),
          "None where only compiling tells.")
      .def("output_ports", &output_ports, nb::arg("options"),
           nb::sig("def output_ports(self, **options: typing.Any) -> list[tuple[str, tuple[int | None, ...], str]]"),
           "Each output's name, shape and type for such options of compile(). An extent that a run decides is None.")
      .def_prop_ro(
          "nodes",
          [](const Graph& self) {
            nb::list names;
            for (const Graph::Node& node : self.nodes()) names.append(node.name);
            return nb::tuple(names);
          },
          nb::sig("def nodes(self) -> tuple[str, ...]"), "The names of all nodes, inputs too.")
      .def("__repr__", &graph_text);
  m.def(
      "check_options",
      [](const Preprocess* preprocess, const nb::kwargs& fields) { (void)options_from(fields, preprocess); },
      nb::arg("preprocess").none(), nb::arg("options"),
      nb::sig("def check_options(preprocess: Preprocess | None, **options: typing.Any) -> None"),
      "Raises what compile() would for keywords that it has not, and for values that are none of theirs.");
}

}  // namespace lamina::python
