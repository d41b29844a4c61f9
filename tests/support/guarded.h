#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
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

/// The last channels of pixels that have some more in front, up to a page's last byte.
class Slice {
 public:
  Slice(std::int64_t pixels, std::int64_t channels, std::int64_t others)
      : memory_(std::vector<float>(static_cast<std::size_t>(pixels * (channels + others)),
                                   std::numeric_limits<float>::quiet_NaN())),
        channels_(channels),
        others_(others) {}

  float* data() { return memory_.data() + others_; }
  std::int64_t pitch() const { return channels_ + others_; }
  void put(std::span<const float> values) {
    each([&](std::size_t i, float& value) { value = values[i]; });
  }
  std::vector<float> take() {
    std::vector<float> values;
    each([&](std::size_t, float& value) { values.push_back(value); });
    return values;
  }
  bool others_untouched() {
    std::int64_t place = 0;
    for (const float value : memory_.span()) {
      if (place++ % pitch() < others_ && !std::isnan(value)) return false;
    }
    return true;
  }

 private:
  template <class F>
  void each(const F& f) {
    std::size_t i = 0;
    std::int64_t place = 0;
    for (float& value : memory_.span()) {
      if (place++ % pitch() >= others_) f(i++, value);
    }
  }

  Guarded<float> memory_;
  std::int64_t channels_, others_;
};

}  // namespace lamina::cpu
