#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <array>

#include "gil.h"
#include "images/images.h"
#include "lamina/base/content.h"
#include "lamina/images/codecs/codec.h"

namespace lamina::python {
namespace {

namespace nb = nanobind;

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

}  // namespace

void read_by_pillow() {
  for (const detail::Codec& codec : by_pillow) {
    if (image_formats().find(codec.name.substr(0, 4)) != std::string::npos) continue;
    detail::codecs().insert(detail::codecs().end() - 1, codec);
  }
}

}  // namespace lamina::python
