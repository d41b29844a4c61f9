// CompileOptions::input_format and output_format on a GPU.

#include "plan/port_formats.h"

#include "lamina/cuda/runtime/architectures.h"
#include "support/batches.h"
#include "support/devices.h"
#include "support/on_gpu.h"

namespace lamina::test::port_formats_test {
namespace {

class CudaPortFormats : public OnGpu {};
LAMINA_ON_GPUS(CudaPortFormats);

TEST_P(CudaPortFormats, AreRoundedOnce) { expect_ports_rounded_once(gpu(), 1e-4f); }

TEST(PortFormatsOnAnH200, AreNotConvertedWhereTheKernelTakesThem) {
  if (!cuda::compiled_for_90a()) GTEST_SKIP() << "this build has no sm_90a code";
  Graph g;
  const Value x = g.input("input", {batch, 64, 8, 8});
  g.output(g.add("conv", Conv2d({.in = 64, .out = 64, .kernel = 3, .padding = 1}), x));
  seed_parameters(g);
  const auto summary = [&](Precision precision, Format format) {
    const DeviceDescription device = h200();
    return g.plan_summary({.device = device.device,
                           .batch = 8,
                           .precision = precision,
                           .input_format = format,
                           .output_format = format,
                           .description = device});
  };
  for (const auto& [precision, dtype] :
       {std::pair(Precision::fp16, DType::f16), std::pair(Precision::bf16, DType::bf16),
        std::pair(Precision::fp32, DType::f32)}) {
    const std::string plan = summary(precision, {dtype, Layout::nhwc});
    EXPECT_EQ(plan.find("conversion"), std::string::npos) << name(precision);
    EXPECT_EQ(plan.find("map ("), std::string::npos) << name(precision);
  }
  EXPECT_NE(summary(Precision::fp16, {DType::bf16, Layout::nhwc}).find("map ("), std::string::npos);
}

}  // namespace
}  // namespace lamina::test::port_formats_test
