#include "lamina/detect/parts.h"

#include <cmath>
#include <utility>

#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"

// The fixed-point arithmetic of OpenCV's resize (Apache 2.0): weights of 11 bits, 22 of a
// pixel after the horizontal pass, of which the vertical one takes what a 16-bit product keeps.
namespace lamina::detail {
namespace {

constexpr int one = 2048;
constexpr std::uint8_t grey = 114;  // what lies beside a letterboxed photograph

struct Tap {
  int first = 0;
  int weight = one, next = 0;  // of `first` and of the pixel after it
};

/// Taps of one axis, held to the picture or not.
std::vector<Tap> taps_of(int in, int out, bool held) {
  const double scale = 1 / (static_cast<double>(out) / in);
  std::vector<Tap> taps(static_cast<std::size_t>(out));
  for (int i = 0; i < out; ++i) {
    const auto place = static_cast<float>((i + 0.5) * scale - 0.5);
    const float floor = std::floor(place), part = place - floor;
    Tap tap = {static_cast<int>(floor), static_cast<int>(std::lrintf((1 - part) * one)),
               static_cast<int>(std::lrintf(part * one))};
    if (held && (tap.first < 0 || tap.first >= in - 1)) tap = {std::clamp(tap.first, 0, in - 1), one, 0};
    taps[static_cast<std::size_t>(i)] = tap;
  }
  return taps;
}

/// Of a row of the photograph the pixels that are wanted, times 2048, of which the last four bits are dropped.
void squeeze(const std::uint8_t* pixels, std::span<const Tap> taps, std::int16_t* out) {
  for (const Tap& tap : taps) {
    const std::uint8_t* pixel = pixels + std::ptrdiff_t{tap.first} * 3;
    const std::uint8_t* next = tap.next == 0 ? pixel : pixel + 3;
    for (int c = 0; c < 3; ++c) *out++ = static_cast<std::int16_t>((pixel[c] * tap.weight + next[c] * tap.next) >> 4);
  }
}

/// Two such rows, mixed in 16 bits. What is given by value stays in registers, whatever `out` may lie over.
void mix(const std::int16_t* upper, const std::int16_t* lower, Tap tap, std::uint8_t* out, std::size_t count) {
  const auto first = static_cast<std::int16_t>(tap.weight), second = static_cast<std::int16_t>(tap.next);
  for (std::size_t i = 0; i < count; ++i) {
    const auto above = static_cast<std::int16_t>((first * upper[i]) >> 16);
    const auto below = static_cast<std::int16_t>((second * lower[i]) >> 16);
    out[i] = static_cast<std::uint8_t>(static_cast<std::uint16_t>(above + below + 2) >> 2);
  }
}

}  // namespace

Letterbox::Letterbox(int photo_width, int photo_height, int width, int height, bool stretched, bool whole) {
  const double gain = std::min(static_cast<double>(height) / photo_height, static_cast<double>(width) / photo_width);
  const auto side = [&](int photo, int input) {
    // As Python rounds: halves to the even neighbour.
    const int inner = stretched ? input : static_cast<int>(std::max(1LL, std::llrint(photo * gain)));
    const int before = static_cast<int>(std::lrint((input - inner) / 2.0 - 0.1));
    return Side{input,
                photo,
                inner,
                before,
                stretched,
                static_cast<float>(whole ? static_cast<double>(inner) / photo : gain),
                static_cast<float>(whole ? before : (input - photo * gain) / 2)};
  };
  x = side(photo_width, width), y = side(photo_height, height);
}

void Letterbox::draw(const ImageView& image, std::span<std::uint8_t> out, ThreadPool& threads) const {
  const auto row_bytes = static_cast<std::size_t>(x.inner) * 3, stride = static_cast<std::size_t>(x.input) * 3;
  const std::vector<Tap> columns = taps_of(x.photo, x.inner, true), rows = taps_of(y.photo, y.inner, false);
  const bool same = x.inner == x.photo && y.inner == y.photo;  // then the bits are too, and no thread is worth waking
  const int piece = same ? y.input : 16;                       // rows of the input
  threads.parallel_for(ceil_div(y.input, piece), [&](std::int64_t index, int) {
    const int first = static_cast<int>(index) * piece, last = std::min(y.input, first + piece);
    RowReader reader(image, 0, static_cast<std::size_t>(x.photo));
    std::array<std::vector<std::int16_t>, 2> lines;  // of neighbouring rows one in each
    lines.fill(std::vector<std::int16_t>(row_bytes));
    std::array<int, 2> held{-1, -1};
    const auto line_of = [&](int row) {
      row = std::clamp(row, 0, y.photo - 1);
      const auto at = static_cast<std::size_t>(row % 2);
      if (std::exchange(held[at], row) != row)
        squeeze(reader.row(static_cast<std::size_t>(row)), columns, lines[at].data());
      return lines[at].data();
    };
    for (int i = first; i < last; ++i) {
      std::uint8_t* row = out.data() + static_cast<std::size_t>(i) * stride;
      std::fill_n(row, stride, grey);
      if (i < y.before || i >= y.before + y.inner) continue;
      row += std::ptrdiff_t{x.before} * 3;
      if (same) {
        std::copy_n(reader.row(static_cast<std::size_t>(i - y.before)), row_bytes, row);
        continue;
      }
      const Tap& tap = rows[static_cast<std::size_t>(i - y.before)];
      mix(line_of(tap.first), line_of(tap.first + 1), tap, row, row_bytes);
    }
  });
}

}  // namespace lamina::detail
