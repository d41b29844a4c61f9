#include "lamina/cpu/concat.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lamina/base/math.h"

namespace lamina::cpu {

void concat(std::span<const Tensor> inputs, std::span<const std::int64_t> widths, std::byte* output, std::int64_t rows,
            ThreadPool& pool) {
  // Bytes of the output in a task: long enough to hide the hand-out, short enough to balance.
  constexpr std::int64_t chunk = 65536;
  const std::int64_t pitch = std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
  const std::int64_t bytes = rows * pitch;
  pool.parallel_for(detail::ceil_div(bytes, chunk), [=](std::int64_t task, int) {
    std::int64_t at = task * chunk;
    const std::int64_t end = std::min(bytes, at + chunk);
    std::int64_t row = at / pitch, offset = at % pitch;  // of the row's first byte that is still to come
    for (; at < end; ++row, offset = 0) {
      std::int64_t first = 0;  // of the input's part of the row
      for (std::size_t i = 0; i < inputs.size() && at < end; first += widths[i++]) {
        const std::int64_t skipped = std::max<std::int64_t>(offset - first, 0);
        const std::int64_t count = std::min(widths[i] - skipped, end - at);
        if (count <= 0) continue;
        const auto* input = static_cast<const std::byte*>(inputs[i].raw());
        std::memcpy(output + at, input + row * widths[i] + skipped, static_cast<std::size_t>(count));
        at += count;
      }
    }
  });
}

}  // namespace lamina::cpu
