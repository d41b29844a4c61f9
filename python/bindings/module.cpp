#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <typeinfo>
#include <vector>

#ifdef LAMINA_DETECT
#include "detect/detect.h"
#endif
#include "device.h"
#include "gil.h"
#include "graph.h"
#include "images/images.h"
#include "lamina/base/names.h"
#include "lamina/base/process/forks.h"
#include "lamina/base/version.h"
#include "lamina/pool/plan_pool.h"
#include "model.h"
#include "not_finite.h"
#include "options.h"
#include "plan.h"
#include "pool.h"
#ifdef LAMINA_QUANTIZE
#include "quantize/quantize.h"
#endif
#include "result.h"

namespace lamina::app {
int command(int argc, char** argv);  // apps/main.cpp
}

namespace lamina::python {

namespace {

/// `also`: what Python's own code would throw.
struct Class {
  ErrorKind kind;
  const char *name, *also, *doc;
};
constexpr Class error_classes[] = {
    {ErrorKind::out_of_memory, "OutOfMemory", "MemoryError", "The host or a device has not enough memory."},
    {ErrorKind::stopped, "Stopped", nullptr,
     "Work ended because its stop or its time said so; it may be asked for again."},
    {ErrorKind::no_such_file, "NoSuchFile", "FileNotFoundError", "There is no file or folder of that name."},
    {ErrorKind::file_access, "FileAccess", "OSError",
     "A file that is there cannot be read, or a file cannot be written."},
    {ErrorKind::unsupported, "Unsupported", "NotImplementedError", "Not by this build, on this device, or by Lamina."},
    {ErrorKind::failed, "Failed", "RuntimeError", "A device or its driver failed."}};

// Borrowed from the module; by ErrorKind, of what has no class of its own Error's.
std::array<PyObject*, 8> class_of = {};
PyObject* pool_full = nullptr;

/// A file's name need not be UTF-8, and is shown escaped then. `inputs` are those whose values have to be known.
void raise(nb::handle kind, const Error& error, const std::vector<std::string>& inputs = {}) {
  const std::string text = in_pythons_words(error.what());
  const nb::object message =
      nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
  const nb::object raised = kind(message);
  if (!inputs.empty()) raised.attr("inputs") = nb::tuple(nb::cast(inputs));
  PyErr_SetObject(kind.ptr(), raised.ptr());
}

/// Nothing but Error and TypeError leaves for what a caller got wrong.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const UnboundInputs& e) {
    raise(error_class(e.kind()), e, e.names);
  } catch (const PoolFull& e) {
    raise(pool_full, e);
  } catch (const Error& e) {
    raise(error_class(e.kind()), e);
  } catch (const std::bad_cast&) {
    PyErr_SetString(PyExc_TypeError, "expected another type of argument");
  }
}

PyObject* make(nb::module_& m, const char* name, const nb::tuple& bases, const char* doc) {
  const nb::module_ builtins = nb::module_::import_("builtins");
  const nb::object made = builtins.attr("type")(name, bases, nb::dict());
  made.attr("__module__") = m.attr("__name__");
  made.attr("__doc__") = doc;
  m.attr(name) = made;
  return made.ptr();
}

void bind_errors(nb::module_& m) {
  const nb::handle error =
      make(m, "Error", nb::make_tuple(nb::borrow(PyExc_ValueError)),
           "What Lamina reports: the message says the place, what was expected and what was found.");
  class_of.fill(error.ptr());
  const nb::module_ builtins = nb::module_::import_("builtins");
  for (const auto& [kind, name, also, doc] : error_classes) {
    const nb::tuple bases = also == nullptr ? nb::make_tuple(error) : nb::make_tuple(error, builtins.attr(also));
    class_of[static_cast<std::size_t>(kind)] = make(m, name, bases, doc);
  }
  pool_full = make(m, "PoolFull", nb::make_tuple(error), "As many images wait as may.");
  nb::register_exception_translator(&translate, nullptr);
}

#ifdef LAMINA_COMMAND
/// Arguments in bytes, as file names are. Python's handler of Ctrl-C has no part in it.
void run_command(const nb::list& arguments) {
  std::vector<std::string> words;
  for (const nb::handle word : arguments) words.emplace_back(nb::cast<nb::bytes>(word).c_str());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  if (std::signal(SIGINT, SIG_DFL) == SIG_IGN) std::signal(SIGINT, SIG_IGN);
  const WithoutGil release;  // its threads ask Pillow for pictures
  std::exit(app::command(static_cast<int>(words.size()), argv.data()));
}
#endif

}  // namespace

nb::handle error_class(ErrorKind kind) { return class_of[static_cast<std::size_t>(kind)]; }

NB_MODULE(_core, m) {
  // All modules of a process share one pointer to the interpreter's tables, and by now it is this interpreter's.
  static nb::detail::nb_internals* of_main = nullptr;
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    if (of_main != nullptr) nb::detail::internals = of_main;
    throw nb::import_error("lamina: expected the main interpreter of this process, got a subinterpreter");
  }
  of_main = nb::detail::internals;
  m.doc() = "Lamina's library. Import lamina, which has all of it that is public.";
  nb::set_leak_warnings(false);  // a daemon thread may well have a plan when the interpreter ends
  (void)lamina::detail::fork_generation();
  watch_for_the_end();
  bind_errors(m);
  bind_device(m);
  bind_not_finite(m);
  m.def(
      "nearest_text",
      [](const std::string& name, const std::vector<std::string>& names) {
        return lamina::detail::nearest_text(name, names);
      },
      nb::arg("name"), nb::arg("names"));
  bind_result(m);
  bind_tensors(m);
  bind_images(m);
  bind_plan(m);
  bind_graph(m);
  bind_model(m);
  bind_pool(m);
#ifdef LAMINA_DETECT
  bind_detect(m);
#endif
#ifdef LAMINA_QUANTIZE
  bind_quantize(m);
#endif
#ifdef LAMINA_COMMAND
  m.def("command", &run_command, nb::arg("arguments"), nb::sig("def command(arguments: list[bytes]) -> None"),
        "Runs the lamina command, and ends the process.");
#endif
  m.def(
      "version", [] { return std::string(version()); }, "Of the library and of this package.");
}

}  // namespace lamina::python
