#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "support/guarded.h"

namespace lamina::cpu {

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
