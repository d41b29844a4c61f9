#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "lamina/images/image.h"
#include "lent.h"

namespace lamina::python {

/// Whether an object is of a kind that a photograph may be of: a path, the bytes of a file, an image of Pillow, an
/// array of pixels, or a file that is open. Everything that takes photographs asks this, and of several asks it of
/// each.
bool is_photo(nb::handle thing);

/// A photograph. Files are decoded without the GIL, as are arrays of one dimension: the bytes of one. Pixels, u8 [H, W,
/// 3] or [H, W], are used where they lie without gaps on the host, and copied otherwise.
struct Photo {
  Photo(nb::handle photo, bool upright);  // and on white; otherwise as it is stored

  Image decoded;
  std::optional<Lent> lent;
  Tensor pixels;   // those lent, or a copy
  nb::object rgb;  // bytes, Pillow's
  ImageView view;  // of the one or the other

 private:
  void take_array(nb::handle photo, const ImageOptions& options);
  void take_pillows(nb::handle photo, bool upright);
};

}  // namespace lamina::python
