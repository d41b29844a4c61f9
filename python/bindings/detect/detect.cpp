#include "detect/detect.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

#include "gil.h"
#include "images/photo.h"
#include "lamina/base/error.h"
#include "lamina/base/process/forks.h"
#include "lamina/detect/detector.h"
#include "model.h"
#include "options.h"
#include "plan.h"
#include "result.h"

namespace lamina::python {
namespace {

/// An array [things, ...] of what `read` says of each.
template <class T, class Read>
nb::object array_of(const std::vector<Detection>& things, std::initializer_list<std::int64_t> extents, DType dtype,
                    const Read& read) {
  std::vector<std::int64_t> shape{static_cast<std::int64_t>(things.size())};
  shape.insert(shape.end(), extents.begin(), extents.end());
  Tensor tensor(Shape(std::span<const std::int64_t>(shape)), dtype);
  auto out = tensor.values<T>().begin();
  for (const Detection& thing : things) out = std::ranges::copy(read(thing), out).out;
  return to_python(Result{std::move(tensor)});
}

class PyDetector {
 public:
  PyDetector(const Model& model, const DetectorOptions& options)
      : detector_(std::make_unique<Detector>(model, options)), generation_(detail::fork_generation()) {}
  PyDetector(const PyDetector&) = delete;
  PyDetector& operator=(const PyDetector&) = delete;

  ~PyDetector() {
    if (generation_ != detail::fork_generation()) {
      (void)detector_.release();  // its threads are the parent's
      return;
    }
    const WithoutGil release;
    detector_.reset();
  }

  const Detector& get() const {
    if (generation_ == detail::fork_generation()) return *detector_;
    detail::fail("detector: made before this process was forked; make it in the child");
  }

  /// boxes, scores, classes, points, masks, turned; None for what the network has not.
  nb::tuple detect(nb::handle photo, double confidence, double iou, std::vector<int> classes, bool across_classes,
                   int most, bool masks, bool upright, const std::stop_source* stop, std::optional<double> time) const {
    const Photo source(photo, upright);
    DetectOptions options{confidence, iou, std::move(classes), across_classes, most, masks, limits_of(stop, time).stop};
    const Detector& detector = get();
    const Detections found = [&] {
      try {
        return interruptible(
            options.stop, [&] { return detector.detect(source.view, options); }, time);
      } catch (const Stopped&) {
        if (!time || (stop != nullptr && stop->stop_requested())) throw;
        throw Stopped(detail::concat("detect: stopped, it took longer than ", *time, " s"));
      }
    }();
    const std::vector<Detection>& things = found.found;
    const std::string task = get().task();
    using Floats = std::vector<float>;
    const nb::object boxes = array_of<float>(things, {4}, DType::f32, [](const Detection& d) {
      return Floats{d.box.left, d.box.top, d.box.right, d.box.bottom};
    });
    const nb::object scores =
        array_of<float>(things, {}, DType::f32, [](const Detection& d) { return Floats{d.score}; });
    const nb::object labels = array_of<std::int32_t>(
        things, {}, DType::i32, [](const Detection& d) { return std::vector<std::int32_t>{d.label}; });
    nb::object points = nb::none(), planes = nb::none(), turned = nb::none();
    if (task == "pose") {
      const auto count = things.empty() ? 0 : static_cast<std::int64_t>(things[0].points.size());
      points = array_of<float>(things, {count, 3}, DType::f32, [](const Detection& d) {
        Floats values;
        for (const Keypoint& p : d.points) values.insert(values.end(), {p.x, p.y, p.score});
        return values;
      });
    }
    if (task == "segment" && masks) {
      planes = array_of<std::uint8_t>(things, {source.view.height, source.view.width}, DType::u8,
                                      [](const Detection& d) { return d.mask->pixels(); });
    }
    if (task == "obb") {
      turned = array_of<float>(things, {5}, DType::f32, [](const Detection& d) {
        return Floats{d.turned->x, d.turned->y, d.turned->width, d.turned->height, d.turned->angle};
      });
    }
    return nb::make_tuple(boxes, scores, labels, points, planes, turned);
  }

 private:
  std::unique_ptr<Detector> detector_;
  unsigned generation_;
};

std::unique_ptr<PyDetector> make_detector(nb::handle given, const std::string& devices, int size,
                                          std::vector<std::string> labels, const nb::kwargs& fields) {
  std::optional<Model> loaded;  // else it is a file
  std::optional<ModelSource> source;
  if (nb::hasattr(given, "graph")) {
    const auto field = [&]<class T>(const char* name, T) { return nb::cast<T>(given.attr(name)); };
    loaded = model_of(nb::cast<const Graph&>(given.attr("graph")), field("preprocess", std::optional<Preprocess>()),
                      field("labels", std::vector<std::string>()), field("metadata", Metadata()));
  } else {
    source.emplace(given);
  }
  CompileOptions compile = options_from(fields, nullptr);
  const std::vector<Device> chosen =
      parse_devices(devices == "all" ? (best_device().is_cuda() ? "cuda:all" : "cpu") : devices);
  compile.device = chosen.front();
  return interruptible(compile.stop, [&] {
    Model model = loaded ? std::move(*loaded) : source->load();
    if (!labels.empty()) model.labels = labels;
    try {
      return std::make_unique<PyDetector>(model, DetectorOptions{.compile = compile, .devices = chosen, .size = size});
    } catch (const Error& error) {
      detail::fail(source ? source->name() : "model", ": ", error.what());
    }
  });
}

}  // namespace

void bind_detect(nb::module_& m) {
  nb::class_<PyDetector>(m, "DetectorCore", "The library's detector; lamina.Detector is how Python has it.")
      .def("detect", &PyDetector::detect, nb::arg("photo").none(), nb::arg("confidence"), nb::arg("iou"),
           nb::arg("classes"), nb::arg("across_classes"), nb::arg("most"), nb::arg("masks"), nb::arg("upright"),
           nb::arg("stop").none(), nb::arg("time").none(),
           nb::sig("def detect(self, photo: lamina._photos.Photo, confidence: float, iou: float, classes: "
                   "collections.abc.Sequence[int], across_classes: bool, most: int, masks: bool, upright: bool, stop: "
                   "Stop | None, time: float | None) -> "
                   "tuple[typing.Any, ...]"))
      .def_prop_ro("names", [](const PyDetector& self) { return self.get().names(); })
      .def_prop_ro("task", [](const PyDetector& self) { return self.get().task(); })
      .def_prop_ro(
          "input_shape", [](const PyDetector& self) { return to_python(self.get().input_shape()); },
          nb::sig("def input_shape(self) -> tuple[int, ...]"))
      .def(
          "name", [](const PyDetector& self, int label) { return self.get().name(label); }, nb::arg("label"));
  m.def("make_detector", &make_detector, nb::arg("given"), nb::arg("device"), nb::arg("size"), nb::arg("labels"),
        nb::arg("options"),
        nb::sig("def make_detector(given: str | os.PathLike[str] | bytes | lamina._network.Network, device: str, "
                "size: int, labels: "
                "collections.abc.Sequence[str], **options: typing.Any) -> DetectorCore"));
}

}  // namespace lamina::python
