// The kernels that write channels last, for every instruction set that the machine has.

#include "lamina/cpu/conv2d/channels_last.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <ostream>
#include <string>

#include "lamina/cpu/conv2d/lanes.h"
#include "support/contract.h"
#include "support/guarded.h"
#include "support/pointwise_reference.h"

namespace lamina::cpu {
namespace {

using test::ConvOperands;
using test::geometry_of;
using test::square;
using test::Values;

/// [N, C, pixels] as [N, pixels, C], or back.
std::vector<float> turned(std::span<const float> values, std::int64_t images, std::int64_t rows, std::int64_t columns) {
  std::vector<float> result(values.size());
  for (std::int64_t n = 0, i = 0; n < images; ++n) {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column, ++i) {
        result[static_cast<std::size_t>((n * columns + column) * rows + row)] = values[static_cast<std::size_t>(i)];
      }
    }
  }
  return result;
}

/// One convolution, all of whose operands are channels last and between guard pages.
struct Operands {
  const float* input;
  const float* weight;
  const float* bias;
  const float* residual;
  float* output;
};

struct Kernel {
  std::string name;
  std::function<bool(const ConvGeometry&)> takes;
  std::function<void(const ConvGeometry&, const Operands&, const RowEpilogue&, ThreadPool&)> run;
};

void PrintTo(const Kernel& kernel, std::ostream* out) { *out << kernel.name; }

template <class Conv, class K>
void run_conv(const K& kernel, const ConvGeometry& g, const Operands& o, const RowEpilogue& epilogue,
              ThreadPool& pool) {
  const Conv conv(g, kernel, pool.threads());
  Guarded<float> packed(whole_lines(conv.packed_size()));
  Guarded<float> workspace(whole_lines(static_cast<std::int64_t>(conv.workspace() / sizeof(float))));
  conv.pack(o.weight, o.bias, packed.data());
  conv.run({o.input, packed.data(), o.residual, o.output}, epilogue, pool, workspace.data());
}

std::string named(const char* kernel, InstructionSet set) {
  std::string name = std::string(kernel) + "_" + lamina::name(set);
  std::erase_if(name, [](char c) { return c == '-'; });
  return name;
}

std::vector<Kernel> kernels() {
  std::vector<Kernel> result;
  for (const ChannelsLastKernel& kernel : channels_last_kernels()) {
    result.push_back({named("dense", kernel.set), [](const ConvGeometry&) { return true; },
                      [&kernel](auto&&... all) { run_conv<ChannelsLastConv>(kernel, all...); }});
  }
  for (const LanesKernel& kernel : lanes_kernels()) {
    result.push_back({named("lanes", kernel.set), [&kernel](const ConvGeometry& g) { return LanesConv::takes(g, kernel); },
                      [&kernel](auto&&... all) { run_conv<LanesConv>(kernel, all...); }});
  }
  return result;
}

/// Runs on nchw operands, each up to a page's last byte and so at odd addresses: only vectors of the kernel's own may
/// ask for alignment.
std::vector<float> run(const Kernel& kernel, const ConvGeometry& g, const ConvOperands& c, bool biased,
                       const RowEpilogue& epilogue, std::span<const float> residual, ThreadPool& pool) {
  Guarded<float> input(turned(c.input, g.batch, g.in_channels, g.in_pixels())), weight(c.weight), bias(c.bias);
  Guarded<float> added(turned(residual, residual.empty() ? 0 : g.batch, g.out_channels, g.out_pixels()));
  Guarded<float> output(g.output_size());
  kernel.run(g, {input.data(), weight.data(), biased ? bias.data() : nullptr, added.data(), output.data()}, epilogue,
             pool);
  return turned(output.span(), g.batch, g.out_pixels(), g.out_channels);
}

class CpuChannelsLast : public testing::TestWithParam<Kernel> {};

TEST_P(CpuChannelsLast, KeepsTheContractOnEveryGeometry) {
  ThreadPool pool(3);
  for (const ConvGeometry& g : test::awkward_geometries()) {
    if (!GetParam().takes(g)) continue;
    for (const Values values : {Values::mixed, Values::positive, Values::equal}) {
      const ConvOperands c(g, values);
      const auto truth = test::reference_conv2d(g, c.input.data(), c.weight.data(), c.bias.data());
      test::expect_contract(g, Precision::fp32, truth, run(GetParam(), g, c, true, {}, {}, pool));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CpuChannelsLast, testing::ValuesIn(kernels()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lamina::cpu
