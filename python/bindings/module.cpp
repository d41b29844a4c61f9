#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <csignal>
#include <cstdlib>
#include <typeinfo>
#include <vector>

#ifdef LAMINA_DETECT
#include "detect/detect.h"
#endif
#include "device.h"
#include "gil.h"
#include "graph.h"
#include "images/images.h"
#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/base/process/forks.h"
#include "lamina/base/version.h"
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

PyObject* error_class = nullptr;
PyObject* no_such_file_class = nullptr;
PyObject* stopped_class = nullptr;

/// A file's name need not be UTF-8, and is shown escaped then. `inputs` are those whose values have to be known.
void raise(PyObject* kind, const Error& error, const std::vector<std::string>& inputs = {}) {
  const std::string text = in_pythons_words(error.what());
  const nb::object message =
      nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
  const nb::object raised = nb::borrow(kind)(message);
  if (!inputs.empty()) raised.attr("inputs") = nb::tuple(nb::cast(inputs));
  PyErr_SetObject(kind, raised.ptr());
}

/// Nothing but Error and TypeError leaves for what a caller got wrong.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const UnboundInputs& e) {
    raise(error_class, e, e.names);
  } catch (const NoSuchFile& e) {
    raise(no_such_file_class, e);
  } catch (const Stopped& e) {
    raise(stopped_class, e);
  } catch (const Error& e) {
    raise(error_class, e);
  } catch (const std::bad_cast&) {
    PyErr_SetString(PyExc_TypeError, "expected another type of argument");
  }
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
  nb::exception<Error> error(m, "Error", PyExc_ValueError);
  error.attr("__doc__") = "What Lamina reports: the message says the place, what was expected and what was found.";
  error_class = error.ptr();
  nb::exception<Stopped> stopped(m, "Stopped", error);
  stopped.attr("__doc__") = "Work ended because its stop or its time said so; it may be asked for again.";
  stopped_class = stopped.ptr();
  const nb::object no_such_file =
      nb::module_::import_("builtins")
          .attr("type")("NoSuchFile", nb::make_tuple(error, nb::borrow(PyExc_FileNotFoundError)), nb::dict());
  no_such_file.attr("__module__") = m.attr("__name__");
  no_such_file.attr("__doc__") = "There is no file of that name.";
  m.attr("NoSuchFile") = no_such_file;
  no_such_file_class = no_such_file.ptr();
  nb::register_exception_translator(&translate, nullptr);
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
  bind_pool(m, error);
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
