#include "lamina/cpu/normalize.h"

#include <algorithm>

#include "lamina/base/math.h"

namespace lamina::cpu {

constexpr std::int64_t pixels_per_task = 4096;

/// In tasks of a few thousand pixels of one image.
void normalize(const Activation& a, const detail::LevelTable& table,
               const std::uint8_t* rgb,  // [images, pixels, 3]
               float* output,            // [images, 3, pixels]
               ThreadPool& pool) {
  const std::int64_t tasks = detail::ceil_div(a.pixels, pixels_per_task);
  pool.parallel_for(a.images * tasks, [&](std::int64_t index, int) {
    const std::int64_t image = index / tasks, first = index % tasks * pixels_per_task;
    const std::int64_t offset = image * a.pixels * 3;
    detail::normalize_pixels(table, first, std::min(first + pixels_per_task, a.pixels), a.pixels, rgb + offset,
                             output + offset);
  });
}

}  // namespace lamina::cpu
