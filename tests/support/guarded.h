#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

namespace lamina::cpu {

/// Elements in pages of their own between two that nobody may touch: one too many, read or written, is the end of the
/// test. They end where the last page does, or begin where the first one does. Bytes are all ones at first: NaN.
template <class T>
class Guarded {
 public:
  enum class At { end, begin };

  explicit Guarded(std::int64_t count, At at = At::end) : count_(static_cast<std::size_t>(count)) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t bytes = count_ * sizeof(T), pages = std::max<std::size_t>(1, (bytes + page - 1) / page);
    mapped_ = (pages + 2) * page;
    memory_ = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    auto* const first = static_cast<unsigned char*>(memory_) + page;
    if (mprotect(first, pages * page, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    std::fill(first, first + pages * page, static_cast<unsigned char>(0xff));
    data_ = reinterpret_cast<T*>(at == At::begin ? first : first + pages * page - bytes);
  }
  explicit Guarded(const std::vector<T>& values, At at = At::end)
      : Guarded(static_cast<std::int64_t>(values.size()), at) {
    std::copy(values.begin(), values.end(), data_);
  }
  ~Guarded() { munmap(memory_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  T* data() { return data_; }
  std::span<T> span() { return {data_, count_}; }
  T& operator[](std::size_t i) { return data_[i]; }

 private:
  std::size_t count_;
  std::size_t mapped_ = 0;
  void* memory_ = nullptr;
  T* data_ = nullptr;
};

/// The same for what must begin on a cache line: floats that fill whole ones, as sizes of workspaces do.
inline std::int64_t whole_lines(std::int64_t floats) { return (floats + 15) / 16 * 16; }

}  // namespace lamina::cpu
