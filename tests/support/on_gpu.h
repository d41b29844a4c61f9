#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "lamina/tensor/device_memory.h"

namespace lamina::test {

/// Tests that run on the first GPU, and again on the last where there are several: the first stays the current one.
/// Skipped where there is none. LAMINA_ON_GPUS(Suite) names the devices.
class OnGpu : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (detail::cuda_device_count() == 0) GTEST_SKIP() << detail::cuda_unavailable_reason();
  }
  static Device gpu() { return Device::cuda(GetParam()); }
};

inline std::vector<int> first_and_last_gpu() {
  const int count = detail::cuda_device_count();
  return count > 1 ? std::vector{0, count - 1} : std::vector{0};
}

}  // namespace lamina::test

#define LAMINA_ON_GPUS(Suite)                                                                  \
  INSTANTIATE_TEST_SUITE_P(Cuda, Suite, testing::ValuesIn(lamina::test::first_and_last_gpu()), \
                           [](const testing::TestParamInfo<int>& i) { return std::to_string(i.param); })
