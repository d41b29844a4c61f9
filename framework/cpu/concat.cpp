#include "lamina/cpu/concat.h"

#include <algorithm>
#include <cstring>

#include "lamina/base/math.h"

namespace lamina::cpu {

void concat(std::span<const Tensor> inputs, const detail::ConcatRows& joined, std::byte* output, ThreadPool& pool) {
  // Bytes of the output in a task: long enough to hide the hand-out, short enough to balance.
  constexpr std::int64_t chunk = 65536;
  std::int64_t width = 0;
  for (const detail::JoinedRows& part : joined.parts) width += part.width;
  const std::int64_t bytes = joined.rows * width;
  pool.parallel_for(detail::ceil_div(bytes, chunk), [&, width, bytes](std::int64_t task, int) {
    const auto& parts = joined.parts;
    std::int64_t at = task * chunk;
    const std::int64_t end = std::min(bytes, at + chunk);
    std::int64_t row = at / width, offset = at % width;  // of the row's first byte that is still to come
    for (; at < end; ++row, offset = 0) {
      std::int64_t first = 0;  // of the input's part of the row
      for (std::size_t i = 0; i < inputs.size() && at < end; first += parts[i++].width) {
        const std::int64_t skipped = std::max<std::int64_t>(offset - first, 0);
        const std::int64_t count = std::min(parts[i].width - skipped, end - at);
        if (count <= 0) continue;
        at += count;
        const auto* input = static_cast<const std::byte*>(inputs[i].raw());
        if (input == output + first) continue;
        std::memcpy(output + row * joined.pitch + first + skipped, input + row * parts[i].pitch + skipped,
                    static_cast<std::size_t>(count));
      }
    }
  });
}

}  // namespace lamina::cpu
