#include "images/images.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>

#include "gil.h"
#include "images/photo.h"
#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/graph/photographs.h"
#include "lamina/images/named_preprocess.h"
#include "options.h"
#include "result.h"

namespace lamina::python {
namespace {

using detail::fail;

/// The pixels as an array u8 [H, W, 3] that owns them.
nb::object pixels_of(Image image) {
  auto owner = std::make_shared<Image>(std::move(image));
  const Shape shape = {owner->height, owner->width, 3};
  return to_python(Result{Tensor::borrow(owner->rgb.data(), shape, DType::u8, Device::cpu(), owner)});
}

/// Throws TypeError of what is neither a Preprocess nor the name of one.
Preprocess settings_of(nb::handle settings) {
  if (nb::isinstance<nb::str>(settings)) return named_preprocess(nb::cast<std::string>(settings));
  if (nb::isinstance<Preprocess>(settings)) return nb::cast<Preprocess>(settings);
  const std::string text = detail::concat("settings: expected a lamina.Preprocess or a name of one, got ",
                                          nb::type_name(settings.type()).c_str());
  throw nb::type_error(text.c_str());
}

nb::object resize_and_crop_photo(nb::handle photo, nb::handle how, nb::handle out, bool upright) {
  const Preprocess settings = settings_of(how);
  const Photo source(photo, upright);
  if (out.is_none()) {
    Image result;
    {
      const WithoutGil release;
      result = resize_and_crop(source.view, settings);
    }
    return pixels_of(std::move(result));
  }
  const Lent target(out, "out", Lent::Access::write);
  const Shape expected = {settings.crop, settings.width(), 3};
  if (target.tensor().dtype() != DType::u8 || target.tensor().shape() != expected ||
      !target.tensor().device().is_cpu()) {
    fail("out: expected u8 ", expected, " on the cpu, got ", target.tensor().description());
  }
  Tensor pixels = target.tensor();
  {
    const WithoutGil release;
    resize_and_crop(source.view, settings, pixels.values<std::uint8_t>());
  }
  return nb::borrow(out);
}

nb::object read_photo(nb::handle photo, bool upright) {
  Photo source(photo, upright);
  if (!source.decoded.rgb.empty()) return pixels_of(std::move(source.decoded));
  Image copy{source.view.width, source.view.height, {}};
  detail::RowReader rows(source.view, 0, static_cast<std::size_t>(copy.width));
  for (int y = 0; y < copy.height; ++y) {
    const std::uint8_t* row = rows.row(static_cast<std::size_t>(y));
    copy.rgb.insert(copy.rgb.end(), row, row + 3 * static_cast<std::ptrdiff_t>(copy.width));
  }
  return pixels_of(std::move(copy));
}

nb::object preprocess_photo(nb::handle photo, nb::handle how, bool upright) {
  const Preprocess settings = settings_of(how);
  const Photo source(photo, upright);
  Tensor result;
  {
    const WithoutGil release;
    result = preprocess(source.view, settings);
  }
  return to_python(Result{std::move(result)});
}

// Of enumerations, in their order.
constexpr std::array<const char*, 2> orders = {"rgb", "bgr"};
constexpr std::array<const char*, 3> aspects = {"kept", "ignored", "letterbox"};
constexpr std::array<const char*, 2> roundings = {"down", "nearest"};
constexpr std::array<const char*, 2> placements = {"centre", "corner"};

template <class Enum, std::size_t n>
void set_named(Enum& result, const char* argument, nb::handle given, const std::array<const char*, n>& names) {
  const auto value = as<std::string>(given, argument, "a text");
  const auto found = std::ranges::find(names, value);
  if (found == names.end()) {
    fail(argument, ": expected ", names[0], n == 3 ? std::string(", ") + names[1] : "", " or ", names.back(),
         ", got \"", value, '"');
  }
  result = static_cast<Enum>(found - names.begin());
}

/// Of each channel, or one number for all.
template <class T>
std::array<T, 3> channels_of(nb::handle value, const char* argument, const char* kind) {
  std::array<T, 3> all{};
  T one{};
  if (nb::try_cast(value, all)) return all;
  if (nb::try_cast(value, one)) return {one, one, one};
  const std::string text =
      detail::concat(argument, ": expected ", kind, " or three, red, green and blue, got ", nb::repr(value).c_str());
  throw nb::type_error(text.c_str());
}

constexpr std::array<const char*, 12> settings_names = {"resize",   "crop",      "mean",      "std",
                                                        "divisor",  "order",     "aspect",    "fill",
                                                        "rounding", "placement", "antialias", "crop_width"};

nb::dict fields_of(nb::handle settings) {
  nb::dict fields;
  for (const char* field : settings_names) fields[field] = settings.attr(field);
  return fields;
}

[[noreturn]] void no_setting(const std::string& name) {
  const std::vector<std::string> known(settings_names.begin(), settings_names.end());
  const std::string nearest = detail::nearest_text(name, known);
  throw nb::type_error(detail::concat("Preprocess: there is no setting ", detail::quote(name), nearest).c_str());
}

/// A mean beyond all photographs was said of other numbers.
void require_within(const Preprocess& settings) {
  const float most = 255 / std::abs(settings.divisor);
  for (const float mean : settings.mean) {
    if (std::abs(mean) > 1.01f * most)
      fail("mean: with divisor=", settings.divisor, " photographs are numbers up to ", most, ", got ", mean,
           "; divisor=1 leaves them the levels 0 to 255");
  }
}

const char* order_of(const Preprocess& p) { return orders[static_cast<std::size_t>(p.order)]; }
const char* aspect_of(const Preprocess& p) { return aspects[static_cast<std::size_t>(p.aspect)]; }
const char* rounding_of(const Preprocess& p) { return roundings[static_cast<std::size_t>(p.rounding)]; }
const char* placement_of(const Preprocess& p) { return placements[static_cast<std::size_t>(p.placement)]; }
std::string text(const Rgb& v) { return detail::concat('(', v[0], ", ", v[1], ", ", v[2], ')'); }

}  // namespace

#define LAMINA_PHOTO "photo: lamina._photos.Photo"
void bind_images(nb::module_& m) {
  read_by_pillow(false);
  nb::class_<Preprocess>(
      m, "Preprocess",
      "How a photograph becomes a network's input, in torchvision's terms: Resize(resize), "
      "CenterCrop(crop), ToTensor,\nNormalize(mean, std); then what Caffe's networks want otherwise.")
      .def(
          "__init__",
          [](Preprocess* self, nb::handle resize, nb::handle crop, nb::handle mean, nb::handle std, nb::handle divisor,
             nb::handle order, nb::handle aspect, nb::handle fill, nb::handle rounding, nb::handle placement,
             nb::handle antialias, nb::handle crop_width, const nb::kwargs& others) {
            constexpr const char* pixels = "a number of pixels";
            for (const auto& other : others) no_setting(nb::str(other.first).c_str());
            Preprocess settings{as<int>(resize, "resize", pixels), as<int>(crop, "crop", pixels),
                                channels_of<float>(mean, "mean", "a number"),
                                channels_of<float>(std, "std", "a number"), as<float>(divisor, "divisor", "a number")};
            require_within(settings);
            settings.crop_width = as<int>(crop_width, "crop_width", pixels);
            set_named(settings.order, "order", order, orders);
            set_named(settings.aspect, "aspect", aspect, aspects);
            settings.fill = channels_of<std::uint8_t>(fill, "fill", "a number from 0 to 255");
            settings.antialias = as<bool>(antialias, "antialias", "True or False");
            set_named(settings.rounding, "rounding", rounding, roundings);
            set_named(settings.placement, "placement", placement, placements);
            (void)window_of(1, 1, settings), (void)detail::level_table(settings);  // what is out of range is said now
            new (self) Preprocess(settings);
          },
          nb::arg("resize") = 256, nb::arg("crop") = 224, nb::arg("mean") = Rgb{0, 0, 0}, nb::arg("std") = Rgb{1, 1, 1},
          nb::arg("divisor") = 255.0f, nb::arg("order") = "rgb", nb::arg("aspect") = "kept",
          nb::arg("fill") = std::array<std::uint8_t, 3>{0, 0, 0}, nb::arg("rounding") = "down",
          nb::arg("placement") = "centre", nb::arg("antialias") = true, nb::arg("crop_width") = 0, nb::arg("others"),
          nb::sig(
              "def __init__(self, resize: int = 256, crop: int = 224, mean: float | collections.abc.Sequence[float] = "
              "(0, 0, 0), std: float | collections.abc.Sequence[float] = (1, 1, 1), divisor: float = 255, order: str = "
              "'rgb', aspect: str = 'kept', fill: int | collections.abc.Sequence[int] = (0, 0, 0), rounding: str = "
              "'down', "
              "placement: str = 'centre', antialias: bool = True, crop_width: int = 0) -> None"))
      .def_ro("resize", &Preprocess::resize, "pixels of the short side")
      .def_ro("crop", &Preprocess::crop, "pixels of both sides of the result; of its height, where crop_width is given")
      .def_ro("crop_width", &Preprocess::crop_width, "pixels of the result's width; 0: as of its height")
      .def_prop_ro("width", &Preprocess::width, "pixels of the result's width")
      .def_prop_ro(
          "mean", [](const Preprocess& p) { return nb::make_tuple(p.mean[0], p.mean[1], p.mean[2]); },
          nb::sig("def mean(self) -> tuple[float, float, float]"))
      .def_prop_ro(
          "std", [](const Preprocess& p) { return nb::make_tuple(p.std[0], p.std[1], p.std[2]); },
          nb::sig("def std(self) -> tuple[float, float, float]"))
      .def_ro("divisor", &Preprocess::divisor)
      .def_prop_ro("order", &order_of, "\"rgb\" or \"bgr\"")
      .def_prop_ro("aspect", &aspect_of, "\"kept\", \"ignored\" or \"letterbox\": the long side gets resize pixels")
      .def_prop_ro(
          "fill", [](const Preprocess& p) { return nb::make_tuple(p.fill[0], p.fill[1], p.fill[2]); },
          nb::sig("def fill(self) -> tuple[int, int, int]"), "levels of what lies beside a picture smaller than crop")
      .def_prop_ro("rounding", &rounding_of, "\"down\" or \"nearest\": of the side that keeps the proportions")
      .def_prop_ro("placement", &placement_of, "\"centre\" or \"corner\"")
      .def_ro("antialias", &Preprocess::antialias, "False: two taps a side, OpenCV's INTER_LINEAR to the bit")
      .def(
          "__eq__",
          [](const Preprocess& self, nb::object other) {
            return nb::isinstance<Preprocess>(other) && self == nb::cast<Preprocess>(other);
          },
          nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def(
          "__reduce__",
          [](nb::handle self) { return nb::make_tuple(self.type(), nb::tuple(fields_of(self).values())); },
          nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"))
      .def(
          "replace",
          [](nb::handle self, const nb::kwargs& changes) {
            nb::dict fields = fields_of(self);
            fields.update(changes);
            return self.type()(**fields);
          },
          nb::arg("changes"), nb::sig("def replace(self, **changes: typing.Any) -> Preprocess"),
          "A copy in which these settings are others: p.replace(crop=288).")
      .def("__repr__", [](const Preprocess& p) {
        return detail::concat("Preprocess(resize=", p.resize, ", crop=", p.crop, ", mean=", text(p.mean),
                              ", std=", text(p.std), ", divisor=", p.divisor, ", order='", order_of(p), "', aspect='",
                              aspect_of(p), "', fill=(", int{p.fill[0]}, ", ", int{p.fill[1]}, ", ", int{p.fill[2]},
                              "), rounding='", rounding_of(p), "', placement='", placement_of(p),
                              "', antialias=", p.antialias ? "True" : "False", ", crop_width=", p.crop_width, ')');
      });
  m.def("torchvision_imagenet", &torchvision_imagenet, "What torchvision's ImageNet classifiers were trained with.");
  m.def("caffe_imagenet", &caffe_imagenet, "What Caffe's ImageNet classifiers are run with.");
  m.def(
      "named_preprocess", [](const std::string& name, const Graph& graph) { return named_preprocess(name, graph); },
      nb::arg("name"), nb::arg("graph"));
  m.def("letterbox", &letterbox, nb::arg("size"), "What Ultralytics' detectors are run with: all of the photograph.");
  m.def(
      "jpeg_decoder", [] { return std::string(jpeg_decoder()); },
      "What decodes JPEG here: \"libjpeg-turbo 2.1.5\", to the bits of Pillow, or \"none\".");
  m.def(
      "read_by_pillow", [] { read_by_pillow(true); },
      "HEIC, AVIF and TIFF go through Pillow from now on, as in a wheel: what tests ask of a build that has their "
      "libraries.");
  m.def("read_image", &read_photo, nb::arg("photo").none(), nb::kw_only(), nb::arg("upright") = true,
        nb::sig("def read_image(" LAMINA_PHOTO ", *, upright: bool = True) -> numpy.typing.NDArray[numpy.uint8]"),
        "The pixels of a photograph, uint8 [height, width, 3]: turned as its EXIF data say, and laid on white where\n"
        "it is transparent, as the command reads it. upright=False: as stored, those of convert(\"RGB\").");
  m.def("resize_and_crop", &resize_and_crop_photo, nb::arg("photo").none(), nb::arg("settings").none(),
        nb::arg("out") = nb::none(), nb::kw_only(), nb::arg("upright") = true,
        nb::sig("def resize_and_crop(" LAMINA_PHOTO ", settings: Preprocess | str, out: "
                "numpy.typing.NDArray[numpy.uint8] | None = None, *, upright: bool = True) -> "
                "numpy.typing.NDArray[numpy.uint8]"),
        "The picture that the network sees, uint8 [crop, width, 3]: the bits of torchvision's Resize and CenterCrop.\n"
        "What a plan compiled with photos= takes, one row for each.");
  m.def(
      "preprocess", &preprocess_photo, nb::arg("photo").none(), nb::arg("settings").none(), nb::kw_only(),
      nb::arg("upright") = true,
      nb::sig("def preprocess(" LAMINA_PHOTO ", settings: Preprocess | str, *, upright: bool = True) -> "
              "numpy.typing.NDArray[numpy.float32]"),
      "A photograph as a network's input, float32 [1, 3, crop, width]: the bits of torchvision's Resize, CenterCrop,\n"
      "ToTensor and Normalize.");
  m.def("is_photo", &is_photo, nb::arg("thing").none(), nb::sig("def is_photo(thing: object) -> bool"),
        "Whether it is of a kind that a photograph may be of; not whether there is one in it.");
}

}  // namespace lamina::python
