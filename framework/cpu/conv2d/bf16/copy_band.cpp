#include "lamina/cpu/conv2d/bf16/copy_band.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "lamina/base/math.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cpu::bf16 {
namespace {

using detail::ceil_div;

class BandCopy {
 public:
  BandCopy(const Layer& layer, const Pointers& p, const BandRows& band, std::byte* memory)
      : layer_(layer),
        g_(layer.geometry),
        p_(p),
        copy_(memory),
        row_(reinterpret_cast<bfloat16*>(memory + layer.copy_bytes())),
        image_(band.image),
        group_(band.group),
        first_row_(band.first),
        rows_(band.count) {}

  void run() { layer_.linear ? copy_pixels() : copy_rows(); }

 private:
  bfloat16 around() const { return {static_cast<std::uint16_t>(p_.padding * 0x101)}; }
  std::int64_t element_size() const { return layer_.engine->widened ? 4 : 2; }
  /// Block 0 of a phase, a row of it, a position of that.
  std::byte* place(std::int64_t phase, std::int64_t row, std::int64_t position) const {
    return copy_ + ((phase * layer_.phase_rows + row) * layer_.pitch + position) * step_channels * element_size();
  }
  std::int64_t block_elements() const {
    return static_cast<std::int64_t>(layer_.phases.size()) * layer_.phase_rows * layer_.pitch * step_channels;
  }
  void spread(const bfloat16* from, std::int64_t pixel, std::int64_t count, std::byte* to,
              const bfloat16* scale = nullptr) const {
    const Spread s = {.from = from,
                      .pixel = pixel,
                      .count = count,
                      .channels = layer_.channels,
                      .scale = scale,
                      .to = to,
                      .block = block_elements()};
    layer_.engine->widened ? layer_.moves->spread_widened(s) : layer_.moves->spread(s);
  }
  void zero(std::byte* to, std::int64_t count) const {
    if (count <= 0) return;
    for (int b = 0; b < layer_.blocks; ++b, to += block_elements() * element_size()) {
      std::memset(to, p_.padding, static_cast<std::size_t>(count * step_channels * element_size()));
    }
  }

  /// Row `row` of the image as bf16, channels innermost, at `to`.
  void convert_row(int row, bfloat16* to) const {
    const std::int64_t width = g_.in_width, channels = g_.in_channels;
    if (layer_.input.layout == Layout::nhwc) {
      const std::int64_t first = (image_ * g_.in_height + row) * width;
      if (layer_.input.dtype == DType::f32) {
        layer_.moves->narrow(static_cast<const float*>(p_.input) + first * channels, width * channels, to);
        return;
      }
      const auto* from = static_cast<const bfloat16*>(p_.input) + first * p_.input_pitch;
      const bool whole = p_.input_pitch == channels;
      const std::int64_t pieces = whole ? 1 : width, length = whole ? width * channels : channels;
      for (std::int64_t i = 0; i < pieces; ++i) std::copy_n(from + i * p_.input_pitch, length, to + i * length);
      return;
    }
    std::int64_t plane = std::int64_t{g_.in_height} * width;
    const std::int64_t first = image_ * channels * plane + row * width;
    const bfloat16* from = static_cast<const bfloat16*>(p_.input) + first;
    if (layer_.input.dtype == DType::f32) {
      bfloat16* const planes = row_ + layer_.row_bytes() / 2 - width * channels;
      for (std::int64_t c = 0; c < channels; ++c) {
        layer_.moves->narrow(static_cast<const float*>(p_.input) + first + c * plane, width, planes + c * width);
      }
      from = planes;
      plane = width;
    }
    layer_.moves->interleave(from, plane, channels, width, to);
  }

  void copy_pixels() const {
    const std::int64_t channels = g_.in_channels, first = first_row_ * channels;
    const std::int64_t skipped = std::int64_t{group_} * g_.group_in_channels();
    if (layer_.scaled) {  // by image
      const std::int64_t pixels = g_.in_pixels();
      for (std::int64_t i = 0, next = 0; i < rows_; i = next) {
        const std::int64_t image = (first_row_ + i) / pixels;
        next = std::min(rows_, (image + 1) * pixels - first_row_);
        spread(static_cast<const bfloat16*>(p_.input) + (first_row_ + i) * p_.input_pitch + skipped, p_.input_pitch,
               next - i, place(0, i, 0), p_.scale + image * channels + skipped);
      }
      return;
    }
    if (layer_.input.dtype == DType::bf16) {
      spread(static_cast<const bfloat16*>(p_.input) + first_row_ * p_.input_pitch + skipped, p_.input_pitch, rows_,
             copy_);
      return;
    }
    for (std::int64_t i = 0; i < rows_; i += g_.in_width) {  // as many as the row has room for
      const std::int64_t count = std::min<std::int64_t>(g_.in_width, rows_ - i);
      layer_.moves->narrow(static_cast<const float*>(p_.input) + first + i * channels, count * channels, row_);
      spread(row_ + skipped, channels, count, place(0, i, 0));
    }
  }

  void copy_rows() {
    if (layer_.folded > 0) return fold_rows();
    std::size_t first = 0, last = layer_.phases.size();
    if (layer_.apart) {  // phases are taps, of which those that no row sees are not read
      const detail::SeenTaps seen = detail::seen_by_rows(g_, first_row_, first_row_ + rows_);
      first = static_cast<std::size_t>(seen.first_tap) * static_cast<std::size_t>(g_.kernel_width);
      last = static_cast<std::size_t>(seen.last_tap) * static_cast<std::size_t>(g_.kernel_width);
    }
    for (std::int64_t i = 0; i < rows_ + layer_.extra_rows; ++i) {
      int converted = -1;  // the row that row_ holds
      for (std::size_t phase = first; phase < last; ++phase) {
        const auto [row, column] = layer_.phases[phase];
        std::byte* const to = place(static_cast<std::int64_t>(phase), i, 0);
        const std::int64_t ih = (first_row_ + i) * g_.stride_height + row - g_.padding_height;
        if (ih < 0 || ih >= g_.in_height) {
          zero(to, layer_.pitch);
        } else {
          copy_row(static_cast<int>(ih), column, to, converted);
        }
      }
    }
  }

  /// The columns of one phase, between zeros.
  void copy_row(int row, int phase, std::byte* to, int& converted) {
    const std::int64_t stride = g_.stride_width;
    std::int64_t pixel = g_.in_channels;
    // Column j * stride + start of the image, for j in [begin, end).
    const std::int64_t start = phase - g_.padding_width;
    const std::int64_t begin = std::clamp<std::int64_t>(start < 0 ? ceil_div(-start, stride) : 0, 0, layer_.pitch);
    const std::int64_t end =
        std::clamp<std::int64_t>(start < g_.in_width ? (g_.in_width - 1 - start) / stride + 1 : 0, begin, layer_.pitch);
    const bfloat16* from = row_;
    if (layer_.input == Format{DType::bf16, Layout::nhwc}) {
      pixel = p_.input_pitch;
      from = static_cast<const bfloat16*>(p_.input) + (image_ * g_.in_height + row) * g_.in_width * pixel;
    } else if (converted != row) {
      convert_row(row, row_);
      converted = row;
    }
    const std::int64_t position = step_channels * element_size();
    zero(to, begin);
    if (end > begin) {
      spread(from + (begin * stride + start) * pixel + std::int64_t{group_} * g_.group_in_channels(), stride * pixel,
             end - begin, to + begin * position);
    }
    zero(to + end * position, layer_.pitch - end);
  }

  /// Rows of taps side by side, as channels.
  void fold_rows() {
    const std::int64_t channels = g_.in_channels, length = layer_.row_elements();
    bfloat16* const zeros = row_ + layer_.folded * length;
    std::fill_n(zeros, length, around());
    std::array<std::int64_t, step_channels> held;  // rows of the image, in memory
    held.fill(-1);
    std::array<const bfloat16*, step_channels> all = {};
    const std::span rows(all.data(), static_cast<std::size_t>(layer_.folded));
    for (std::int64_t i = 0; i < rows_ + layer_.extra_rows; ++i) {
      for (std::size_t phase = 0; phase < layer_.phases.size(); ++phase) {
        const std::int64_t top = (first_row_ + i) * g_.stride_height + layer_.phases[phase].row - g_.padding_height;
        for (std::size_t k = 0; k < rows.size(); ++k) {
          const std::int64_t ih = top + static_cast<std::int64_t>(k);
          const bool there = ih >= 0 && ih < g_.in_height;
          const std::int64_t slot = there ? ih % layer_.folded : 0;
          rows[k] = there ? row_ + slot * length : zeros;
          if (!there || held[static_cast<std::size_t>(slot)] == ih) continue;
          held[static_cast<std::size_t>(slot)] = ih;
          padded_row(static_cast<int>(ih), row_ + slot * length);
        }
        const Runs runs = {.from = rows,
                           .length = g_.kernel_width * g_.in_channels,
                           .pixel = g_.stride_width * channels,
                           .count = layer_.pitch,
                           .to = place(static_cast<std::int64_t>(phase), i, 0)};
        if (layer_.blocks == 1) {
          layer_.engine->widened ? layer_.moves->join_widened(runs) : layer_.moves->join(runs);
        } else {
          spread(rows[0], runs.pixel, runs.count, place(static_cast<std::int64_t>(phase), i, 0));
        }
      }
    }
  }

  /// Row `row` of the image between zeros.
  void padded_row(int row, bfloat16* to) const {
    const std::int64_t left = std::int64_t{g_.padding_width} * g_.in_channels;
    const std::int64_t end = left + std::int64_t{g_.in_width} * g_.in_channels;
    std::fill(to, to + left, around());
    convert_row(row, to + left);
    std::fill(to + end, to + layer_.row_elements(), around());
  }

  const Layer& layer_;
  const ConvGeometry& g_;
  const Pointers& p_;
  std::byte* copy_;
  bfloat16* row_;
  std::int64_t image_;
  int group_;
  std::int64_t first_row_, rows_;
};

}  // namespace

void copy_band(const Layer& layer, const Pointers& pointers, const BandRows& band, std::byte* memory) {
  BandCopy(layer, pointers, band, memory).run();
}

}  // namespace lamina::cpu::bf16
