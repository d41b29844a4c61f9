#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>

#include "gil.h"
#include "images/images.h"
#include "lamina/images/codecs/codec.h"

namespace lamina::python {
namespace {

namespace nb = nanobind;

/// A format by Pillow, which calls it `name`.
template <const char* name>
struct ByPillow {
  /// Without pixels unless it is wanted `whole`.
  static std::pair<Image, bool> picture_and_alpha(const detail::EncodedImage& file, bool whole, bool on_white) {
    const WithGil gil;
    if (!gil.held()) file.fail("cannot be read: the interpreter ends");
    try {
      const nb::object answer =
          nb::module_::import_("lamina._pillow")
              .attr("picture")(nb::bytes(file.data(0, file.size()), file.size()), name, whole, on_white);
      if (nb::isinstance<nb::str>(answer)) file.fail(nb::cast<std::string>(answer));
      const auto pixels = nb::cast<nb::bytes>(answer[3]);
      const auto* first = reinterpret_cast<const std::uint8_t*>(pixels.c_str());
      return {{nb::cast<int>(answer[0]), nb::cast<int>(answer[1]), {first, first + pixels.size()}},
              nb::cast<bool>(answer[2])};
    } catch (const nb::python_error& error) {
      file.fail("cannot be read: ", error.what());
    }
  }

  static detail::ImageSize check(const detail::EncodedImage& file) {
    const auto [image, alpha] = picture_and_alpha(file, false, false);
    file.require_size(image.width, image.height);
    constexpr std::uint64_t bytes = 14;  // of a pixel: Pillow's two pictures, its RGB and ours
    return {image.width, image.height,
            bytes * static_cast<std::uint64_t>(image.width) * static_cast<std::uint64_t>(image.height), alpha};
  }

  static Image decode(const detail::EncodedImage& file, const detail::ImageSize&, bool on_white) {
    Image image = picture_and_alpha(file, true, on_white).first;
    detail::require_consistent(image);
    return image;
  }
};

constexpr char heif[] = "HEIF", avif[] = "AVIF", tiff[] = "TIFF";

constexpr std::array<detail::Codec, 3> by_pillow = {
    {{"HEIC (after pip install pillow-heif)", ".heic.heif.", detail::is_heic, ByPillow<heif>::check,
      ByPillow<heif>::decode},
     {"AVIF (after pip install pillow)", ".avif.", detail::is_avif, ByPillow<avif>::check, ByPillow<avif>::decode},
     {"TIFF (after pip install pillow)", ".tif.tiff.", detail::is_tiff, ByPillow<tiff>::check,
      ByPillow<tiff>::decode}}};

}  // namespace

void read_by_pillow(bool all) {
  std::vector<detail::Codec>& codecs = detail::codecs();
  for (const detail::Codec& codec : by_pillow) {
    const auto same = [&](const detail::Codec& other) { return other.extensions == codec.extensions; };
    if (all) {
      std::erase_if(codecs, same);
    } else if (std::ranges::any_of(codecs, same)) {
      continue;
    }
    codecs.insert(codecs.end() - 1, codec);
  }
}

}  // namespace lamina::python
