#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "lamina/cuda/runtime/buffer.h"
#include "lamina/cuda/runtime/stream.h"
#include "lamina/tensor/device_memory.h"

namespace lamina::test {

/// Device memory whose every byte is 0xff, NaN in every type, or what it was made from, between guard zones of such
/// bytes that must stay so.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t bytes) : bytes_(bytes), buffer_(0, bytes + 2 * guard) {
    cuda::fill_bytes(0, buffer_.data(), 0xff, buffer_.bytes(), nullptr);
    cuda::synchronize(0, nullptr);
  }
  explicit GuardedBuffer(const std::vector<unsigned char>& bytes) : GuardedBuffer(bytes.size()) {
    detail::copy_bytes(data(), Device::cuda(), bytes.data(), Device::cpu(), bytes.size());
  }

  unsigned char* data() const { return buffer_.as<unsigned char>() + guard; }
  std::size_t bytes() const { return bytes_; }

  /// What it holds; a test failure if a guard zone was written to.
  std::vector<unsigned char> read() const {
    std::vector<unsigned char> all(buffer_.bytes());
    detail::copy_bytes(all.data(), Device::cpu(), buffer_.data(), Device::cuda(), all.size());
    const auto untouched = [](auto first, auto last) {
      return std::all_of(first, last, [](int b) { return b == 0xff; });
    };
    const auto begin = all.begin() + guard, end = all.end() - guard;
    EXPECT_TRUE(untouched(all.begin(), begin)) << "written before the buffer";
    EXPECT_TRUE(untouched(end, all.end())) << "written past the buffer";
    return {begin, end};
  }

 private:
  static constexpr std::ptrdiff_t guard = 4096;

  std::size_t bytes_;
  cuda::Buffer buffer_;
};

}  // namespace lamina::test
