#pragma once

#include <cstdint>
#include <vector>

#include "lamina/images/resize.h"

namespace lamina::detail {

/// A part of a picture that is resized as OpenCV 4 and 5 do it with INTER_LINEAR, to the bit: two taps a side in fixed
/// point, no antialias. What detectors are trained with.
class TwoTaps {
 public:
  /// `region` of a consistent view of width x height pixels once it is resized.
  TwoTaps(const ImageView& image, std::int64_t width, std::int64_t height, const Region& region);

  /// Whether nothing is resized.
  bool is_copy() const { return copy_; }
  /// The region's rows [first, last), as RGB. `out` is where row 0 is, whose rows lie `stride` bytes apart.
  void draw(int first, int last, std::uint8_t* out, std::size_t stride) const;

 private:
  struct Tap {
    int first = 0, weight = 0, next = 0;  // a pixel, and the weights of it and of the one after it
  };

  static std::vector<Tap> taps_of(int in, std::int64_t out, std::int64_t begin, int count, bool held);

  ImageView image_;
  Region region_;
  bool copy_ = false;
  std::vector<Tap> columns_, rows_;
};

}  // namespace lamina::detail
