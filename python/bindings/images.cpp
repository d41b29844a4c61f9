#include "images.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "gil.h"
#include "lamina/base/content.h"
#include "lamina/base/error.h"
#include "lamina/images/codecs/codec.h"
#include "lamina/images/preprocess.h"
#include "lent.h"
#include "options.h"
#include "result.h"

namespace lamina::python {
namespace {

using detail::fail;

/// u8 [H, W, 3], where it lies.
ImageView view_of(const Tensor& pixels) {
  const Shape& shape = pixels.shape();
  if (pixels.dtype() != DType::u8 || !pixels.device().is_cpu() || shape.rank() != 3 || shape[2] != 3) {
    fail("photo: expected u8 [height, width, 3] on the cpu, got ", pixels.description());
  }
  if (shape[0] > 1 << 20 || shape[1] > 1 << 20) fail("photo: expected fewer pixels, got ", pixels.description());
  return {.data = pixels.values<std::uint8_t>().data(),
          .width = static_cast<int>(shape[1]),
          .height = static_cast<int>(shape[0])};
}

std::size_t bytes_of(const ImageView& rgb) {
  return 3 * static_cast<std::size_t>(rgb.width) * static_cast<std::size_t>(rgb.height);
}

bool is_pillows(nb::handle photo) {
  const nb::object pillow = nb::module_::import_("sys").attr("modules").attr("get")("PIL.Image");
  return !pillow.is_none() && nb::isinstance(photo, pillow.attr("Image"));
}

/// The pixels as an array u8 [H, W, 3] that owns them.
nb::object pixels_of(Image image) {
  auto owner = std::make_shared<Image>(std::move(image));
  const Shape shape = {owner->height, owner->width, 3};
  return to_python(Result{Tensor::borrow(owner->rgb.data(), shape, DType::u8, Device::cpu(), owner)});
}

nb::object resize_and_crop_photo(nb::handle photo, const Preprocess& settings, nb::handle out, bool upright) {
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
  const Shape expected = {settings.crop, settings.crop, 3};
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
  const ImageView& view = source.view;
  return pixels_of({view.width, view.height, {view.data, view.data + bytes_of(view)}});
}

nb::object preprocess_photo(nb::handle photo, const Preprocess& settings, bool upright) {
  const Photo source(photo, upright);
  Tensor result;
  {
    const WithoutGil release;
    result = preprocess(source.view, settings);
  }
  return to_python(Result{std::move(result)});
}

/// HEIC, AVIF and TIFF by Pillow, where this build has no library for them; without pixels unless it is wanted `whole`.
std::pair<Image, bool> picture_and_alpha(const detail::EncodedImage& file, bool whole, bool on_white) {
  const WithGil gil;
  if (!gil.held()) file.fail("cannot be read: the interpreter ends");
  try {
    const nb::object answer = nb::module_::import_("lamina._pillow")
                                  .attr("picture")(nb::bytes(file.data(0, file.size()), file.size()),
                                                   std::string(detail::content_of(file.bytes()).name), whole, on_white);
    if (nb::isinstance<nb::str>(answer)) file.fail(nb::cast<std::string>(answer));
    const auto pixels = nb::cast<nb::bytes>(answer[3]);
    const auto* first = reinterpret_cast<const std::uint8_t*>(pixels.c_str());
    return {{nb::cast<int>(answer[0]), nb::cast<int>(answer[1]), {first, first + pixels.size()}},
            nb::cast<bool>(answer[2])};
  } catch (const nb::python_error& error) {
    file.fail("cannot be read: ", error.what());
  }
}

detail::ImageSize check(const detail::EncodedImage& file) {
  const auto [image, alpha] = picture_and_alpha(file, false, false);
  file.require_size(image.width, image.height);
  constexpr std::uint64_t bytes = 14;  // of a pixel: Pillow's two pictures, its RGB and ours
  return {image.width, image.height,
          bytes * static_cast<std::uint64_t>(image.width) * static_cast<std::uint64_t>(image.height), alpha};
}

Image decode(const detail::EncodedImage& file, const detail::ImageSize&, bool on_white) {
  Image image = picture_and_alpha(file, true, on_white).first;
  detail::require_consistent(image);
  return image;
}

template <char first>
bool begins(std::span<const std::byte> head) {
  const std::string_view name = detail::content_of(head).name;
  return name == (first == 'H' ? "a HEIC picture" : first == 'A' ? "an AVIF picture" : "a TIFF picture");
}

constexpr std::array<detail::Codec, 3> by_pillow = {{{"HEIC (pillow-heif)", ".heic.heif.", begins<'H'>, check, decode},
                                                     {"AVIF (Pillow)", ".avif.", begins<'A'>, check, decode},
                                                     {"TIFF (Pillow)", ".tif.tiff.", begins<'T'>, check, decode}}};

void read_by_pillow() {
  for (const detail::Codec& codec : by_pillow) {
    if (image_formats().find(codec.name.substr(0, 4)) != std::string::npos) continue;
    detail::codecs().insert(detail::codecs().end() - 1, codec);
  }
}

// Of enumerations, in their order.
constexpr std::array<const char*, 2> orders = {"rgb", "bgr"};
constexpr std::array<const char*, 3> aspects = {"kept", "ignored", "letterbox"};
constexpr std::array<const char*, 2> roundings = {"down", "nearest"};
constexpr std::array<const char*, 2> placements = {"centre", "corner"};

template <class Enum, std::size_t n>
void set_named(Enum& result, const char* argument, const std::string& value, const std::array<const char*, n>& names) {
  const auto found = std::ranges::find(names, value);
  if (found == names.end()) {
    fail(argument, ": expected ", names[0], n == 3 ? std::string(", ") + names[1] : "", " or ", names.back(),
         ", got \"", value, '"');
  }
  result = static_cast<Enum>(found - names.begin());
}

const char* order_of(const Preprocess& p) { return orders[static_cast<std::size_t>(p.order)]; }
const char* aspect_of(const Preprocess& p) { return aspects[static_cast<std::size_t>(p.aspect)]; }
const char* rounding_of(const Preprocess& p) { return roundings[static_cast<std::size_t>(p.rounding)]; }
const char* placement_of(const Preprocess& p) { return placements[static_cast<std::size_t>(p.placement)]; }
std::string text(const Rgb& v) { return detail::concat('(', v[0], ", ", v[1], ", ", v[2], ')'); }

}  // namespace

Photo::Photo(nb::handle photo, bool upright) {
  if (is_pillows(photo)) {
    take_pillows(photo, upright);
  } else if (nb::isinstance<nb::bytes>(photo) || nb::isinstance<nb::str>(photo) || nb::hasattr(photo, "__fspath__")) {
    decode(photo, {.orientation = upright ? Orientation::upright : Orientation::as_stored});
  } else {
    lent.emplace(photo, "photo", Lent::Access::read);
    view = view_of(lent->tensor());
  }
}

void Photo::decode(nb::handle photo, const ImageOptions& options) {
  if (nb::isinstance<nb::bytes>(photo)) {
    const auto bytes = nb::borrow<nb::bytes>(photo);
    const std::span file(reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size());
    const WithoutGil release;
    decoded = decode_image(file, "photo", options);
  } else {
    const auto path = as<std::filesystem::path>(photo, "photo", "a path");
    const WithoutGil release;
    decoded = read_image(path, options);
  }
  view = decoded;
}

void Photo::take_pillows(nb::handle photo, bool upright) {
  rgb = asked("photo", [&] {
    nb::object picture = nb::borrow(photo);
    if (upright) picture = nb::module_::import_("PIL.ImageOps").attr("exif_transpose")(picture);
    picture = picture.attr("convert")("RGB");
    view.width = nb::cast<int>(picture.attr("width"));
    view.height = nb::cast<int>(picture.attr("height"));
    return nb::object(picture.attr("tobytes")());
  });
  const auto bytes = nb::cast<nb::bytes>(rgb);
  if (bytes.size() != bytes_of(view)) fail("photo: expected ", bytes_of(view), " bytes, got ", bytes.size());
  view.data = reinterpret_cast<const std::uint8_t*>(bytes.c_str());
}

#define LAMINA_PHOTO "photo: lamina._photos.Photo"
void bind_images(nb::module_& m) {
  read_by_pillow();
  nb::class_<Preprocess>(
      m, "Preprocess",
      "How a photograph becomes a network's input, in torchvision's terms: Resize(resize), "
      "CenterCrop(crop), ToTensor,\nNormalize(mean, std); then what Caffe's networks want otherwise.")
      .def(
          "__init__",
          [](Preprocess* self, int resize, int crop, Rgb mean, Rgb std, float divisor, const std::string& order,
             const std::string& aspect, std::array<std::uint8_t, 3> fill, const std::string& rounding,
             const std::string& placement, bool antialias) {
            Preprocess settings{resize, crop, mean, std, divisor};
            set_named(settings.order, "order", order, orders);
            set_named(settings.aspect, "aspect", aspect, aspects);
            settings.fill = fill, settings.antialias = antialias;
            set_named(settings.rounding, "rounding", rounding, roundings);
            set_named(settings.placement, "placement", placement, placements);
            new (self) Preprocess(settings);
          },
          nb::arg("resize") = 256, nb::arg("crop") = 224, nb::arg("mean") = Rgb{0, 0, 0}, nb::arg("std") = Rgb{1, 1, 1},
          nb::arg("divisor") = 255.0f, nb::arg("order") = "rgb", nb::arg("aspect") = "kept",
          nb::arg("fill") = std::array<std::uint8_t, 3>{0, 0, 0}, nb::arg("rounding") = "down",
          nb::arg("placement") = "centre", nb::arg("antialias") = true,
          nb::sig(
              "def __init__(self, resize: int = 256, crop: int = 224, mean: collections.abc.Sequence[float] = (0, 0, "
              "0), std: collections.abc.Sequence[float] = (1, 1, 1), divisor: float = 255, order: str = 'rgb', "
              "aspect: str = 'kept', fill: collections.abc.Sequence[int] = (0, 0, 0), rounding: str = 'down', "
              "placement: str = 'centre', antialias: bool = True) -> None"))
      .def_ro("resize", &Preprocess::resize, "pixels of the short side")
      .def_ro("crop", &Preprocess::crop, "pixels of both sides of the result")
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
          [](nb::handle self) {
            nb::list fields;
            for (const char* field : {"resize", "crop", "mean", "std", "divisor", "order", "aspect", "fill", "rounding",
                                      "placement", "antialias"})
              fields.append(self.attr(field));
            return nb::make_tuple(self.type(), nb::tuple(fields));
          },
          nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"))
      .def("__repr__", [](const Preprocess& p) {
        return detail::concat("Preprocess(resize=", p.resize, ", crop=", p.crop, ", mean=", text(p.mean),
                              ", std=", text(p.std), ", divisor=", p.divisor, ", order='", order_of(p), "', aspect='",
                              aspect_of(p), "', fill=(", int{p.fill[0]}, ", ", int{p.fill[1]}, ", ", int{p.fill[2]},
                              "), rounding='", rounding_of(p), "', placement='", placement_of(p),
                              "', antialias=", p.antialias ? "True)" : "False)");
      });
  m.def("torchvision_imagenet", &torchvision_imagenet, "What torchvision's ImageNet classifiers were trained with.");
  m.def("caffe_imagenet", &caffe_imagenet, "What Caffe's ImageNet classifiers are run with.");
  m.def("letterbox", &letterbox, nb::arg("size"), "What Ultralytics' detectors are run with: all of the photograph.");
  m.def(
      "jpeg_decoder", [] { return std::string(jpeg_decoder()); },
      "What decodes JPEG here: \"libjpeg-turbo 2.1.5\", to the bits of Pillow, or \"none\".");
  m.def("read_image", &read_photo, nb::arg("photo"), nb::kw_only(), nb::arg("upright") = false,
        nb::sig("def read_image(" LAMINA_PHOTO ", *, upright: bool = False) -> numpy.typing.NDArray[numpy.uint8]"),
        "The pixels of a photograph, uint8 [height, width, 3]: those of Pillow's convert(\"RGB\"). upright=True turns "
        "it\nas its EXIF data say.");
  m.def("resize_and_crop", &resize_and_crop_photo, nb::arg("photo"), nb::arg("settings"), nb::arg("out") = nb::none(),
        nb::kw_only(), nb::arg("upright") = false,
        nb::sig("def resize_and_crop(" LAMINA_PHOTO ", settings: Preprocess, out: "
                "numpy.typing.NDArray[numpy.uint8] | None = None, *, upright: bool = False) -> "
                "numpy.typing.NDArray[numpy.uint8]"),
        "The picture that the network sees, uint8 [crop, crop, 3]: the bits of torchvision's Resize and CenterCrop.\n"
        "What a plan compiled with photos= takes, one row for each.");
  m.def("preprocess", &preprocess_photo, nb::arg("photo"), nb::arg("settings"), nb::kw_only(),
        nb::arg("upright") = false,
        nb::sig("def preprocess(" LAMINA_PHOTO ", settings: Preprocess, *, upright: bool = False) -> "
                "numpy.typing.NDArray[numpy.float32]"),
        "A photograph as a network's input, float32 [1, 3, crop, crop]: the bits of torchvision's Resize, CenterCrop,\n"
        "ToTensor and Normalize.");
}

}  // namespace lamina::python
