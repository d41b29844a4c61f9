#include "lamina/base/in_parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"

namespace lamina::detail {
namespace {

constexpr std::size_t max_readers = 8;  // more do not read memory any faster

}  // namespace

void in_parallel(std::size_t count, std::size_t piece, const std::function<void(std::size_t, std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  const auto take_pieces = [&] {
    for (std::size_t begin = next.fetch_add(piece); begin < count; begin = next.fetch_add(piece)) {
      work(begin, std::min(count, begin + piece));
    }
  };
  const std::size_t threads =
      std::min({ceil_div(count, piece), max_readers, static_cast<std::size_t>(ThreadPool::default_threads())});
  std::vector<std::jthread> others;
  try {
    for (std::size_t i = 1; i < threads; ++i) others.emplace_back(take_pieces);
  } catch (const std::exception&) {
    // No more threads to be had, or no memory for one (bad_alloc): those there are do it all.
  }
  take_pieces();
}

}  // namespace lamina::detail
