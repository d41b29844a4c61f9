// Every engine for eight bits, and the model of AMX's, beside the plain loops: the same bits.

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/int8/kernels.h"
#include "support/guarded.h"

namespace lamina::test {
namespace {

Tensor random_bytes(Shape shape, DType dtype, unsigned seed) {
  Tensor result(shape, dtype);
  std::mt19937 random(seed);
  auto* const bytes = static_cast<std::uint8_t*>(result.raw());
  for (std::int64_t i = 0; i < shape.numel(); ++i) bytes[i] = static_cast<std::uint8_t>(random());
  return result;
}

struct Layer {
  int channels, filters, kernel, stride, padding, dilation, groups, height, width;
};

TEST(Int8Engines, HaveTheBitsOfThePlainLoops) {
  const Layer layers[] = {{64, 48, 1, 1, 0, 1, 1, 6, 7}, {130, 33, 1, 1, 0, 1, 1, 5, 9},
                          {68, 32, 1, 1, 0, 1, 1, 4, 8}, {3, 40, 7, 2, 3, 1, 1, 15, 16},
                          {36, 20, 3, 1, 1, 1, 1, 7, 6}, {128, 64, 3, 2, 1, 1, 1, 9, 8},
                          {32, 32, 3, 1, 2, 2, 1, 9, 9}, {48, 24, 3, 1, 1, 1, 3, 6, 6},
                          {5, 7, 5, 1, 2, 1, 1, 8, 4},   {256, 16, 1, 2, 0, 1, 1, 9, 9}};
  ThreadPool pool(2);
  for (const Layer& l : layers) {
    ConvGeometry g;
    g.batch = 2;
    g.in_channels = l.channels, g.in_height = l.height, g.in_width = l.width;
    g.out_channels = l.filters;
    g.kernel_height = g.kernel_width = l.kernel;
    g.stride_height = g.stride_width = l.stride;
    g.padding_height = g.padding_width = l.padding;
    g.dilation_height = g.dilation_width = l.dilation;
    g.groups = l.groups;
    const int window = l.dilation * (l.kernel - 1) + 1;
    g.out_height = (l.height + 2 * l.padding - window) / l.stride + 1;
    g.out_width = (l.width + 2 * l.padding - window) / l.stride + 1;
    ConvProblem problem = {.geometry = g};
    problem.eight.weight = random_bytes({l.filters, l.channels / l.groups, l.kernel, l.kernel}, DType::i8, 1);
    problem.eight.scale = Tensor({l.filters});
    for (float& scale : problem.eight.scale.values<float>()) scale = 0.0013f;
    problem.epilogue.chain = {{Pointwise::relu}};
    for (const DType type : {DType::u8, DType::i8}) {
      const View input = {.shape = {2, l.channels, l.height, l.width},
                          .format = {type, Layout::nhwc},
                          .quantization = {0.02f, type == DType::u8 ? 119 : -11}};
      for (const DType result : {DType::u8, DType::f32}) {
        const View output = {.shape = {2, l.filters, g.out_height, g.out_width},
                             .format = {result, Layout::nhwc},
                             .quantization = result == DType::u8 ? Quantization{0.3f, 9} : Quantization{}};
        const Preparation p = {
            .inputs = {&input, 1}, .outputs = {&output, 1}, .device = describe(Device::cpu()), .threads = 2};
        const Tensor bytes = random_bytes(input.shape, type, 2);
        cpu::Guarded<std::uint8_t> input_memory(input.shape.numel());
        const Tensor x = Tensor::borrow(input_memory.data(), input.shape, type);
        std::memcpy(input_memory.data(), bytes.raw(), bytes.bytes());
        const auto run = [&](const Operator& op) {
          cpu::Guarded<float> workspace(cpu::whole_lines(static_cast<std::int64_t>(op.workspace_bytes()) / 4 + 1));
          cpu::Guarded<std::uint8_t> memory(output.shape.numel() * static_cast<std::int64_t>(size_of(result)));
          Tensor y = Tensor::borrow(memory.data(), output.shape, result);
          op.run({&x, 1}, {&y, 1}, {.pool = &pool, .workspace = workspace.data()});
          return y.clone();
        };
        const Tensor expected = run(*cpu::int8::prepare_direct(problem, p));
        for (const auto& engines : {cpu::bf16::int8_amx_models(), cpu::bf16::int8_amx_engines(),
                                    cpu::bf16::int8_dot_engines(), cpu::bf16::int8_multiply_add_engines()}) {
          for (const cpu::bf16::Engine& engine : engines) {
            const bool here = !(engine.unit == cpu::bf16::Unit::amx && engine.what == "AMX" && !p.device.amx_int8) &&
                              !(engine.unit == cpu::bf16::Unit::dot && !p.device.avx512_vnni) &&
                              cpu::supported(engine.set);
            if (engine.operand != type || !here) continue;
            const Tensor y = run(*cpu::int8::prepare_with(problem, p, engine));
            EXPECT_EQ(std::memcmp(y.raw(), expected.raw(), y.bytes()), 0)
                << l.channels << " to " << l.filters << ", " << l.kernel << ", " << type << " to " << result << ", "
                << engine.what << ' ' << name(engine.set);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lamina::test
