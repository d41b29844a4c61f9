#include "lamina/kernel/device_description.h"

#include "support/devices.h"
#include "support/file_test.h"

namespace lamina::test::limited_gpu_test {
namespace {

using detail::limited_to;

TEST(LimitedGpu, HasTheInstructionsAndTheSharedMemoryOfItsGeneration) {
  const DeviceDescription ada = limited_to(89, h200());
  EXPECT_EQ(ada.architecture, 89);
  EXPECT_FALSE(ada.wgmma);
  EXPECT_EQ(ada.shared_bytes, 99 * 1024);
  EXPECT_EQ(ada.multiprocessor_shared_bytes, 100 * 1024);
  EXPECT_EQ(ada.multiprocessors, 132);
  EXPECT_EQ(ada.clusters[1], 132);
  EXPECT_EQ(ada.clusters[2], 0);

  const DeviceDescription ampere = limited_to(80, h200()), a100 = test::a100();
  EXPECT_EQ(ampere.shared_bytes, a100.shared_bytes);
  EXPECT_EQ(ampere.multiprocessor_shared_bytes, a100.multiprocessor_shared_bytes);
  EXPECT_EQ(ampere.reserved_shared_bytes, a100.reserved_shared_bytes);

  EXPECT_EQ(limited_to(75, h200()).shared_bytes, 64 * 1024);
}

TEST(LimitedGpu, OfItsOwnGenerationIsItself) {
  const DeviceDescription own = limited_to(90, h200());
  EXPECT_TRUE(own.wgmma);
  EXPECT_EQ(own.shared_bytes, h200().shared_bytes);
  EXPECT_EQ(own.clusters, h200().clusters);
}

TEST(LimitedGpu, RefusesWhatTheDeviceIsNot) {
  expect_error([] { (void)limited_to(90, a100()); },
               {"architecture: expected a GPU of at least compute capability 9.0, got cuda:0 of 8.0"});
  expect_error([] { (void)limited_to(80, describe(Device::cpu())); },
               {"architecture: expected a GPU of at least compute capability 8.0, got cpu"});
}

}  // namespace
}  // namespace lamina::test::limited_gpu_test
