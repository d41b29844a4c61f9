#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "lamina/images/image.h"
#include "lent.h"

namespace lamina::python {

/// A photograph out of a path, the bytes of a file, both decoded without the GIL, an image of Pillow, or an array of
/// pixels, used where it lies.
struct Photo {
  Photo(nb::handle photo, bool upright);
  void decode(nb::handle photo, const ImageOptions& options);
  void take_pillows(nb::handle photo, bool upright);

  Image decoded;
  std::optional<Lent> lent;
  nb::object rgb;  // bytes, Pillow's
  ImageView view;  // of the one or the other
};

/// Photographs and how they become inputs.
void bind_images(nb::module_& m);

}  // namespace lamina::python
