#include "lamina/detect/parts.h"

#include <cmath>

#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/images/two_taps.h"

namespace lamina::detail {

Letterbox::Letterbox(int photo_width, int photo_height, int width, int height, bool stretched, bool whole) {
  const double gain = std::min(static_cast<double>(height) / photo_height, static_cast<double>(width) / photo_width);
  const auto side = [&](int photo, int input) {
    // As Python rounds: halves to the even neighbour.
    const int inner = stretched ? input : static_cast<int>(std::max(1LL, std::llrint(photo * gain)));
    const int before = static_cast<int>(std::lrint((input - inner) / 2.0 - 0.1));
    const double own = whole ? static_cast<double>(inner) / photo : gain, left = (input - photo * gain) / 2;
    return Side{
        input, photo, inner, before, stretched, static_cast<float>(own), static_cast<float>(whole ? before : left)};
  };
  x = side(photo_width, width), y = side(photo_height, height);
}

void Letterbox::draw(const ImageView& image, std::span<std::uint8_t> out, ThreadPool& threads) const {
  constexpr std::uint8_t grey = 114;  // what lies beside a letterboxed photograph
  const std::size_t stride = static_cast<std::size_t>(x.input) * 3;
  const TwoTaps resized(image, x.inner, y.inner, {0, 0, x.inner, y.inner});
  const int piece = resized.is_copy() ? y.input : 16;  // rows of the input; to copy them no thread is worth waking
  std::uint8_t* const inner =
      out.data() + static_cast<std::size_t>(y.before) * stride + static_cast<std::size_t>(x.before) * 3;
  threads.parallel_for(ceil_div(y.input, piece), [&](std::int64_t index, int) {
    const int first = static_cast<int>(index) * piece, last = std::min(y.input, first + piece);
    const auto begin = static_cast<std::size_t>(first), end = static_cast<std::size_t>(last);
    std::fill(out.data() + begin * stride, out.data() + end * stride, grey);
    resized.draw(std::clamp(first - y.before, 0, y.inner), std::clamp(last - y.before, 0, y.inner), inner, stride);
  });
}

}  // namespace lamina::detail
