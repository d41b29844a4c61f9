#include "images/photo.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "gil.h"
#include "lamina/base/error.h"
#include "lamina/images/codecs/codec.h"
#include "options.h"

namespace lamina::python {
namespace {

using detail::fail;

bool is_path(nb::handle thing) { return nb::isinstance<nb::str>(thing) || nb::hasattr(thing, "__fspath__"); }

bool is_pillows(nb::handle thing) {
  const nb::object pillow = nb::module_::import_("sys").attr("modules").attr("get")("PIL.Image");
  return !pillow.is_none() && nb::isinstance(thing, pillow.attr("Image"));
}

bool is_array(nb::handle thing) {
  return PyObject_CheckBuffer(thing.ptr()) != 0 || nb::hasattr(thing, "__dlpack__") || nb::hasattr(thing, "__array__");
}

bool is_file(nb::handle thing) { return nb::hasattr(thing, "read"); }

/// How the samples of a pixel lie: grey, red green blue, or these and alpha.
std::optional<PixelFormat> format_of(std::int64_t channels) {
  if (channels == 1) return PixelFormat::gray;
  if (channels == 3) return PixelFormat::rgb;
  return channels == 4 ? std::optional(PixelFormat::rgba) : std::nullopt;
}

/// u8 [H, W], [H, W, C], or planes [C, H, W], of 1, 3 or 4 channels. What could be both has them last. Planes, and
/// pixels that are laid on white, become a copy.
ImageView view_of(Tensor& pixels, Transparency transparency) {
  const std::string given = pixels.description();
  const Shape shape = pixels.shape();
  const bool grey = shape.rank() == 2, last = shape.rank() == 3 && format_of(shape[2]);
  const bool first = !last && shape.rank() == 3 && format_of(shape[0]);
  if (pixels.dtype() != DType::u8 || !(grey || last || first)) {
    fail("photo: expected u8 [height, width], [height, width, 3] or [3, height, width], or 1 or 4 in place of 3, got ",
         given,
         is_float(pixels.dtype()) ? "; numbers from 0 to 1 become levels by (255 * photo).round().astype(\"uint8\")"
                                  : "");
  }
  const std::int64_t height = shape[first ? 1 : 0], width = shape[first ? 2 : 1];
  std::int64_t channels = grey ? 1 : shape[last ? 2 : 0];
  if (height > 1 << 20 || width > 1 << 20) fail("photo: expected fewer pixels, got ", given);
  if (first) {
    const Tensor planes = pixels;
    pixels = Tensor({height, width, channels}, DType::u8);
    const auto from = planes.values<std::uint8_t>();
    const auto to = pixels.values<std::uint8_t>();
    const auto each = static_cast<std::size_t>(height * width), count = static_cast<std::size_t>(channels);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[i % count * each + i / count];
  }
  if (channels == 4 && transparency == Transparency::on_white) {
    const Tensor all = std::exchange(pixels, Tensor({height, width, channels = 3}, DType::u8));
    detail::lay_on_white(all.values<std::uint8_t>().data(), static_cast<std::size_t>(height * width),
                         pixels.values<std::uint8_t>().data());
  }
  return {.data = pixels.values<std::uint8_t>().data(),
          .width = static_cast<int>(width),
          .height = static_cast<int>(height),
          .format = *format_of(channels)};
}

}  // namespace

bool is_photo(nb::handle thing) { return is_path(thing) || is_pillows(thing) || is_array(thing) || is_file(thing); }

Photo::Photo(nb::handle photo, bool upright) {
  const ImageOptions options = {
      .orientation = upright ? Orientation::upright : Orientation::as_stored,
      .transparency = upright ? Transparency::on_white : Transparency::ignored};  // as the command
  if (is_path(photo)) {
    const auto path = as<std::filesystem::path>(photo, "photo", "a path");
    if (path.empty()) fail(ErrorKind::no_such_file, "photo: expected the path of a file, got an empty text");
    const WithoutGil release;
    decoded = read_image(path, options);
    view = decoded;
  } else if (is_pillows(photo)) {
    take_pillows(photo, upright);
  } else if (is_array(photo)) {
    take_array(photo, options);
  } else if (is_file(photo)) {
    const nb::object content = asked("photo", [&] { return nb::object(photo.attr("read")()); });
    if (!nb::isinstance<nb::bytes>(content)) {
      const std::string text = detail::concat("photo: expected bytes from read(), of a file opened as \"rb\", got ",
                                              nb::type_name(content.type()).c_str());
      throw nb::type_error(text.c_str());
    }
    take_array(content, options);
  } else {
    const std::string text = detail::concat(
        "photo: expected a path, the bytes of a file, an open file, an image of Pillow or an array of "
        "pixels, got ",
        nb::type_name(photo.type()).c_str());
    throw nb::type_error(text.c_str());
  }
  const std::string& warning = decoded.warning;
  if (!warning.empty() && PyErr_WarnEx(nullptr, warning.c_str(), 1) != 0) throw nb::python_error();
}

void Photo::take_array(nb::handle photo, const ImageOptions& options) {
  nb::object array = nb::borrow(photo);
  if (nb::hasattr(photo, "__array__") && on_host(photo, "photo")) {  // gaps are closed by a copy
    array = asked("photo", [&] { return nb::object(nb::module_::import_("numpy").attr("ascontiguousarray")(photo)); });
  }
  lent.emplace(array, "photo", Lent::Access::read);
  pixels = lent->tensor();
  const WithoutGil release;
  if (pixels.dtype() == DType::u8 && pixels.shape().rank() == 1) {
    const auto bytes = pixels.values<std::uint8_t>();
    decoded = decode_image(std::as_bytes(std::span(bytes)), "photo", options);
    view = decoded;
  } else {
    pixels = pixels.to(Device::cpu());
    view = view_of(pixels, options.transparency);
  }
}

void Photo::take_pillows(nb::handle photo, bool upright) {
  rgb = asked("photo", [&] {
    const nb::object picture = nb::module_::import_("lamina._pillow").attr("as_read")(photo, upright);
    view.width = nb::cast<int>(picture.attr("width"));
    view.height = nb::cast<int>(picture.attr("height"));
    return nb::object(picture.attr("tobytes")());
  });
  const auto bytes = nb::cast<nb::bytes>(rgb);
  const std::size_t expected = 3 * static_cast<std::size_t>(view.width) * static_cast<std::size_t>(view.height);
  if (bytes.size() != expected) fail("photo: expected ", expected, " bytes, got ", bytes.size());
  view.data = reinterpret_cast<const std::uint8_t*>(bytes.c_str());
}

}  // namespace lamina::python
