#pragma once

#include <cstddef>
#include <functional>

namespace lamina::detail {

/// Calls work(begin, end) for ranges of at most `piece` that together are [0, count), and returns when all are done; on
/// several threads where there are several ranges and cores. For the passes over all weights that happen once, while a
/// plan is compiled: threads that last are ThreadPool's business. `work` must not throw.
void in_parallel(std::size_t count, std::size_t piece,
                 const std::function<void(std::size_t begin, std::size_t end)>& work);

}  // namespace lamina::detail
