// Every engine for eight bits, and the model of AMX's, beside the plain loops: the same bits.

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "cpu/amx_model.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/int8/kernels.h"
#include "lamina/cpu/conv2d/lanes/lanes.h"
#include "support/conv_cases.h"
#include "support/guarded.h"
#include "support/problem_data.h"

namespace lamina::test {
namespace {

/// Runs operators on the same random codes, each within memory of its own.
class Runs {
 public:
  Runs(const View& input, const View& output, ThreadPool& pool)
      : output_(output), pool_(pool), memory_(input.shape.numel()) {
    const Tensor bytes = random_codes(input.shape, input.format.dtype, 2);
    input_ = Tensor::borrow(memory_.data(), input.shape, input.format.dtype);
    std::memcpy(memory_.data(), bytes.raw(), bytes.bytes());
  }

  Tensor operator()(const Operator& op) {
    const DType type = output_.format.dtype;
    cpu::Guarded<float> workspace(cpu::whole_lines(static_cast<std::int64_t>(op.workspace_bytes()) / 4 + 1));
    cpu::Guarded<std::uint8_t> memory(output_.shape.numel() * static_cast<std::int64_t>(size_of(type)));
    Tensor y = Tensor::borrow(memory.data(), output_.shape, type);
    op.run({&input_, 1}, {&y, 1}, {.pool = &pool_, .workspace = workspace.data()});
    return y.clone();
  }

 private:
  const View& output_;
  ThreadPool& pool_;
  cpu::Guarded<std::uint8_t> memory_;
  Tensor input_;
};

TEST(Int8Engines, HaveTheBitsOfThePlainLoops) {
  const ConvCase layers[] = {square(2, 64, 6, 7, 48, 1, 1, 0, 1, 1), square(2, 130, 5, 9, 33, 1, 1, 0, 1, 1),
                             square(2, 68, 4, 8, 32, 1, 1, 0, 1, 1), square(2, 3, 15, 16, 40, 7, 2, 3, 1, 1),
                             square(2, 36, 7, 6, 20, 3, 1, 1, 1, 1), square(2, 128, 9, 8, 64, 3, 2, 1, 1, 1),
                             square(2, 32, 9, 9, 32, 3, 1, 2, 2, 1), square(2, 48, 6, 6, 24, 3, 1, 1, 1, 3),
                             square(2, 5, 8, 4, 7, 5, 1, 2, 1, 1),   square(2, 256, 9, 9, 16, 1, 2, 0, 1, 1)};
  ThreadPool pool(2);
  for (const ConvCase& l : layers) {
    const ConvGeometry g = geometry_of(l);
    ConvProblem problem = {.geometry = g};
    problem.eight.weight =
        random_codes({g.out_channels, g.group_in_channels(), g.kernel_height, g.kernel_width}, DType::i8, 1);
    problem.eight.scale = Tensor({g.out_channels});
    for (float& scale : problem.eight.scale.values<float>()) scale = 0.0013f;
    problem.epilogue.chain = {{Pointwise::relu}};
    for (const DType type : {DType::u8, DType::i8}) {
      const View input = {.shape = {2, g.in_channels, g.in_height, g.in_width},
                          .format = {type, Layout::nhwc},
                          .quantization = {0.02f, type == DType::u8 ? 119 : -11}};
      for (const DType result : {DType::u8, DType::f32}) {
        const View output = {.shape = {2, g.out_channels, g.out_height, g.out_width},
                             .format = {result, Layout::nhwc},
                             .quantization = result == DType::u8 ? Quantization{0.3f, 9} : Quantization{}};
        const Preparation p = {
            .inputs = {&input, 1}, .outputs = {&output, 1}, .device = describe(Device::cpu()), .threads = 2};
        Runs run(input, output, pool);
        const Tensor expected = run(*cpu::int8::prepare_direct(problem, p));
        for (const auto& engines : {amx_models(), cpu::bf16::engines(type)}) {
          for (const cpu::bf16::Engine& engine : engines) {
            if (engine.operand != type) continue;
            const Tensor y = run(*cpu::int8::prepare_with(problem, p, engine));
            EXPECT_EQ(std::memcmp(y.raw(), expected.raw(), y.bytes()), 0)
                << g.in_channels << " to " << g.out_channels << ", " << g.kernel_height << ", " << type << " to "
                << result << ", " << engine.what << ' ' << name(engine.set);
          }
        }
      }
    }
  }
}

/// By fours of rows where there is AVX512-VNNI, by multiply-adds of f32 elsewhere.
TEST(Int8Engines, DepthwiseLayersHaveTheBitsOfThePlainLoops) {
  ThreadPool pool(2);
  for (const int channels : {5, 32, 64, 96, 131}) {
    for (const auto& [kernel, stride, width] : {std::array{3, 1, 1}, std::array{3, 1, 14}, std::array{3, 2, 13},
                                                std::array{5, 1, 9}, std::array{5, 2, 15}, std::array{7, 1, 11}}) {
      ConvCase layer = square(2, channels, 7, width, channels, kernel, stride, kernel / 2, 1, channels);
      const ConvGeometry g = geometry_of(layer);
      ConvProblem problem = {.geometry = g};
      problem.eight.weight = random_codes({channels, 1, kernel, kernel}, DType::i8, 1);
      problem.eight.scale = Tensor({channels});
      for (float& scale : problem.eight.scale.values<float>()) scale = 0.0013f;
      for (const DType type : {DType::u8, DType::i8}) {
        for (const float out_scale : {0.02f, 1e-5f}) {  // by a factor of more than a half, too
          const View input = {.shape = {2, channels, g.in_height, g.in_width},
                              .format = {type, Layout::nhwc},
                              .quantization = {0.02f, type == DType::u8 ? 119 : -11}};
          const View output = {.shape = {2, channels, g.out_height, g.out_width},
                               .format = {type, Layout::nhwc},
                               .quantization = {out_scale, type == DType::u8 ? 9 : -5}};
          Preparation p = {
              .inputs = {&input, 1}, .outputs = {&output, 1}, .device = describe(Device::cpu()), .threads = 2};
          Runs run(input, output, pool);
          const Tensor expected = run(*cpu::int8::prepare_direct(problem, p));
          for (const bool fours : {true, false}) {
            p.device.avx512_vnni &= fours;
            const Tensor y = run(*cpu::prepare_lanes(type, problem, p));
            EXPECT_EQ(std::memcmp(y.raw(), expected.raw(), y.bytes()), 0)
                << channels << " channels, " << kernel << ", stride " << stride << ", " << width << " columns, "
                << type;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lamina::test
